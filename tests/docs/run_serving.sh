#!/usr/bin/env bash
# run_serving.sh PAGE.md ATTEND NODE_MODULES [NODE]: runs the commands and programs of docs/serving.md as written, with small
# models, on a free port.
set -euo pipefail
page=$(realpath "$1")
bin=$(dirname "$(realpath "$2")")
modules=$3
node=${4:-}
work=$(mktemp -d)
server=
stop() { [ -z "$server" ] || { kill "$server" && wait "$server"; } || true; server=; }
trap 'stop; [ ! -s nginx.pid ] || kill "$(cat nginx.pid)"; rm -rf "$work"' EXIT
cd "$work"
export PATH="$bin:$PATH" HOME="$work"
printf "silent\nshow-error\n" > .curlrc

for i in $(seq 1 40); do printf 'The sea was calm on day %d, and the old man waited.\n海上风平浪静，老人等着风。\n' "$i"; done > novel.txt
for i in $(seq 1 40); do printf 'A dog runs.\tEin Hund läuft.\nA child sings.\tEin Kind singt.\n'; done > pairs.tsv
for i in $(seq 1 40); do printf 'good\tI would buy it again, %d times.\nbad\tBroke after %d days. 太差了\n' "$i" "$i"; done > reviews.tsv
small=(--dim 16 --heads 2 --steps 3 --quiet)
attend train gpt novel.txt -o novel --tokenizer bpe --vocabulary 400 --layers 1 --context 64 "${small[@]}"
attend train transformer pairs.tsv -o en-de --tokenizer char "${small[@]}"
attend train encoder reviews.tsv -o reviews --tokenizer char --layers 1 "${small[@]}"
printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}assistant:' > novel/chat_template.jinja

serve() {  # serve COMMAND: starts the server on a free port and waits until it is ready
  stop
  rm -f address  # of the server before
  local command=${1/--port 8757/}
  : > address  # without the address of the server before
  bash -c "exec $command --port 0" > address 2> log &
  server=$!
  for _ in $(seq 600); do
    [ -s address ] && break
    kill -0 "$server" 2>/dev/null || { cat log >&2; exit 1; }
    sleep 0.1
  done
  port=$(sed -n 's|.*:\([0-9]*\)/$|\1|p' address)
}
fenced() { awk -v fence='^```'"$1"'$' '$0 ~ fence {on = 1; next} /^```$/ {on = 0} on' "$page"; }

# The programs come after the first server and use it.
count=0
run_programs() {
  fenced python | sed "s/8757/$port/g" > sample.py
  if python3 -c 'import openai' 2>/dev/null; then python3 sample.py; else python3 -m py_compile sample.py; fi
  if [ -n "$node" ] && [ -d "$modules/openai" ]; then
    ln -s "$modules" node_modules
    fenced js | sed "s/8757/$port/g" > sample.mjs
    "$node" sample.mjs
  fi
}
while IFS= read -r line; do
  [ -n "$line" ] || continue
  echo "\$ $line"
  count=$((count + 1))
  if [[ $line == "attend serve"* ]]; then
    serve "$line"
    [ -f sample.py ] || run_programs
  else
    bash -o pipefail -c "${line//8757/${port:-8757}}" < /dev/null > answer || { echo "failed: $line" >&2; exit 1; }
    if grep -q '"error"' answer; then cat answer >&2; exit 1; fi
  fi
done <<< "$(fenced sh)"

# The configuration of nginx, without TLS, on a socket. The browser behind it speaks TLS.
nginx=$(PATH="$PATH:/usr/sbin" command -v nginx || true)
if [ -n "$nginx" ]; then
  {
    echo "pid $work/nginx.pid; error_log stderr; events {} http { access_log off;"
    for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done
    fenced nginx | sed "s|listen 443 ssl|listen unix:$work/front|; /ssl_certificate/d; s/8757/$port/"
    echo "}"
  } > nginx.conf
  "$nginx" -c "$work/nginx.conf" -p "$work" 2> nginx.err || { cat nginx.err >&2; exit 1; }
  proxied() { curl --fail --unix-socket front "http://api.example.org$1" "${@:2}" > answer; }
  own=(-H "Origin: https://api.example.org" -H "Sec-Fetch-Site: same-origin")
  proxied /
  proxied /v1/chat/completions "${own[@]}" -d '{"messages": [{"role": "user", "content": "你好"}], "max_tokens": 3}'
  proxied /v1/completions "${own[@]}" -d '{"prompt": "The sea", "max_tokens": 3, "stream": true}'
  grep -q "DONE" answer || { cat answer >&2; exit 1; }
  "$nginx" -c "$work/nginx.conf" -p "$work" -s stop 2> nginx.err
  while [ -e nginx.pid ]; do sleep 0.05; done
  echo "the configuration of nginx works"
fi

kill "$server"
wait "$server"  # status 0 after SIGTERM
server=
[ "$count" -gt 10 ] || { echo "$page: too few commands found" >&2; exit 1; }
echo "$count commands ran"

#!/usr/bin/env bash
# run.sh CASE ATTEND: tests of attend under mpirun, on one machine. Exits with 77 if mpirun or the plug-in is missing.
set -euo pipefail
case_name=$1 attend=$(realpath "$2")
command -v mpirun >/dev/null || { echo "skipped: mpirun is not installed"; exit 77; }
[ -e "$(dirname "$attend")/libattend-mpi.so" ] || { echo "skipped: attend was built without MPI"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers may forbid reading another process's memory
export ATTEND_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "FAILED: $*" >&2; exit 1; }
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
# saved_step MODEL: the step of its checkpoint, which the refusal of fewer steps names.
saved_step() { { "$attend" train --resume "$1" --steps 1 2>&1 || true; } | sed 's/.*already been trained for \([0-9]*\);.*/\1/'; }
# mpi N ARGS…: attend ARGS… in N processes.
mpi() { local count=$1; shift; mpirun -n "$count" "$attend" "$@" </dev/null; }
# expect_line TEXT FILE: the file has exactly one line of attend's own that starts with "attend: " and has TEXT.
expect_line() {
  [ "$(grep -c '^attend: ' "$2")" = 1 ] || { cat "$2" >&2; fail "expected one line of attend in $2"; }
  grep '^attend: ' "$2" | grep -q -- "$1" || { cat "$2" >&2; fail "expected '$1'"; }
}

# wait_for_step_10: until the running job $job has written its tenth step to its file running.log.
wait_for_step_10() {
  until grep -qs '^step 10/' running.log; do
    sleep 0.2
    kill -0 $job || { cat running.log; fail "the job ended early"; }
  done
}

make_corpora() {
  awk 'BEGIN { srand(7); for (i = 0; i < 300; ++i) { s = t = ""; n = 2 + int(rand() * 6)
    for (j = 0; j < n; ++j) { w = int(rand() * 20); s = s "a" w " "; t = "b" w " " t }
    print s "\t" t } }' >pairs.tsv
  awk 'BEGIN { srand(8); for (i = 0; i < 300; ++i) { w = int(rand() * 2); s = w ? "good" : "bad"
    for (j = 0; j < 5; ++j) s = s " w" int(rand() * 30); print (w ? "yes" : "no") "\t" s } }' >labels.tsv
  cut -f 1 pairs.tsv >text.txt
}

common=(--steps 30 --validate-every 30 --log-every 10 --dropout 0.2 --device cpu --samples 0)
architecture_options() {
  case $1 in
    rnn-attention) echo rnn-attention pairs.tsv --tokenizer word --dim 16 --state-dim 16 --batch-tokens 200 ;;
    transformer) echo transformer pairs.tsv --tokenizer word --dim 32 --heads 2 --ffn-dim 32 --encoder-layers 1 \
                      --decoder-layers 1 --batch-tokens 200 ;;
    gpt) echo gpt text.txt --tokenizer char --dim 32 --heads 2 --layers 2 --context 16 --batch 4 ;;
    encoder) echo encoder labels.tsv --tokenizer word --dim 32 --heads 2 --layers 1 --batch-tokens 200 ;;
  esac
}
# train FOLDER PROCESSES ACCUMULATE ARCHITECTURE OPTIONS…
train() {
  local folder=$1 processes=$2 accumulate=$3 architecture=$4 words
  shift 4
  read -ra words <<<"$(architecture_options "$architecture")"
  words+=("${common[@]}" --accumulate "$accumulate" -o "$folder" --quiet "$@")
  if [ "$processes" = 1 ]; then "$attend" train "${words[@]}"; else mpi "$processes" train "${words[@]}"; fi
}

case $case_name in
  # One process, two and four give the same weights.
  bits-*)
    make_corpora
    architecture=${case_name#bits-}
    train one 1 4 "$architecture"
    for count in 2 4; do
      train "m$count" "$count" $((4 / count)) "$architecture"
      same one/model.safetensors "m$count/model.safetensors"
      same one/training.json "m$count/training.json"
      diff <(sed 's/"tokens_per_second":[^,]*,\|"seconds[a-z_]*":[^,}]*//g' one/training.jsonl) \
           <(sed 's/"tokens_per_second":[^,]*,\|"seconds[a-z_]*":[^,}]*//g' "m$count/training.jsonl") ||
        fail "the logs differ"
    done
    ATTEND_SHARED_MEMORY=off train messages 2 2 "$architecture"  # instead of memory that they share
    same one/model.safetensors messages/model.safetensors ;;
  # A recipe, not a part of the tests: eight processes.
  eight)
    make_corpora
    for architecture in rnn-attention transformer gpt encoder; do
      train "one-$architecture" 1 8 "$architecture"
      train "eight-$architecture" 8 1 "$architecture"
      same "one-$architecture/model.safetensors" "eight-$architecture/model.safetensors"
      echo "$architecture: the same bits"
    done ;;
  # GPUs, one for each process, which exchange gradients through the memory of the host.
  gpus)
    plugin=$(dirname "$attend")/tests/libattend-pretend-cuda.so
    [ -e "$plugin" ] || { echo "skipped: $plugin is not built"; exit 77; }
    export ATTEND_CUDA_PLUGIN=$plugin
    common=("${common[@]/#cpu/cuda}")
    make_corpora
    train one 1 6 gpt
    train two 2 3 gpt
    same one/model.safetensors two/model.safetensors
    train many 3 2 gpt --wire bf16 ;;
  # A number of batches that is no power of two, divided in another way when the training is resumed.
  resume)
    make_corpora
    train whole 1 6 gpt --steps 20 --validate-every 20
    train part 2 3 gpt --steps 10 --validate-every 20 --schedule constant --warmup 0 --lr 0.001
    rm -rf whole && train whole 1 6 gpt --steps 20 --validate-every 20 --schedule constant --warmup 0 --lr 0.001
    mpi 3 train --resume part --steps 20 --quiet
    same whole/model.safetensors part/model.safetensors
    mpi 4 train --resume part --steps 30 --quiet 2>log && fail "6 batches cannot be divided by 4"
    expect_line 'an update of 6 batches cannot be divided among 4 processes' log ;;
  # Other orders and types of the exchange: the ranks still agree, and the loss falls.
  options)
    make_corpora
    for option in '--reduce fast' '--wire bf16'; do
      rm -rf m && train m 3 2 gpt $option 2>log
      "$attend" evaluate m text.txt >/dev/null || fail "$option"
    done
    rm -rf m && "$attend" train gpt text.txt -o m --wire bf16 2>log && fail "--wire needs several processes"
    expect_line 'several processes' log ;;
  # The optimizer's state in parts: the same bits, also when the training is resumed with more or fewer parts.
  shard)
    make_corpora
    constant=(--schedule constant --warmup 0 --lr 0.001 --validate-every 12)
    train whole 1 6 transformer --steps 12 "${constant[@]}"
    train part 3 2 transformer --steps 4 "${constant[@]}" --shard optimizer
    [ "$(ls part/checkpoint.safetensors.4.*-of-3 | wc -l)" = 3 ] || fail "expected three parts"
    mpi 2 train --resume part --steps 8 --quiet
    [ "$(ls part/checkpoint.safetensors.* | wc -l)" = 2 ] || fail "expected two parts"
    "$attend" train --resume part --steps 12 --quiet --device cpu
    same whole/model.safetensors part/model.safetensors
    [ "$(ls part/checkpoint.safetensors* | wc -l)" = 1 ] || fail "expected one file" ;;
  # Sequences are divided: losses agree with those of one process up to rounding, also after resuming with other numbers.
  context)
    make_corpora
    exact=(--dropout 0 --schedule constant --warmup 0 --lr 0.001 --validate-every 12 --log-every 1)
    losses() { sed -n 's/.*"loss":\([0-9.]*\).*/\1/p' "$1/training.jsonl"; }
    # Rounding errors of 6e-8 in gradients change a weight by up to 1e-3 · 1e-4 in an update of Adam, and a loss of 3 by
    # much less than 1e-4.
    agree() {
      [ "$(losses "$1" | wc -l)" = 12 ] || fail "expected 12 losses in $1"
      paste <(losses "$1") <(losses "$2") | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d }
        END { print "largest difference of losses: " most; exit !(NR == 12 && most < 1e-4) }' || fail "$1 and $2 differ"
    }
    train one 1 2 gpt --steps 12 "${exact[@]}"
    train ring 2 2 gpt --steps 12 "${exact[@]}" --context-parallel 2
    agree one ring
    grep -q '"accumulate": 2' ring/training.json || fail "expected 2 batches per update"
    train again 2 2 gpt --steps 12 "${exact[@]}" --context-parallel 2
    same ring/model.safetensors again/model.safetensors
    train cut 2 2 gpt --steps 5 "${exact[@]}" --context-parallel 2
    mpi 2 train --resume cut --steps 12 --quiet
    same ring/model.safetensors cut/model.safetensors
    train both 4 1 gpt --steps 5 "${exact[@]}" --context-parallel 2 --recompute
    mpi 3 train --resume both --steps 9 --context-parallel 3 --quiet
    "$attend" train --resume both --steps 12 --context-parallel 1 --device cpu --quiet
    agree one both
    read -ra words <<<"$(architecture_options gpt)"
    for positions in rotary alibi sinusoidal; do
      rm -rf m one && train one 1 1 gpt --steps 12 "${exact[@]}" --positions $positions --window 6
      train m 3 1 gpt --steps 12 "${exact[@]}" --positions $positions --window 6 --context-parallel 3
      agree one m
    done
    rm -rf m && mpi 2 train "${words[@]}" "${common[@]}" --context-parallel 2 -o m 2>log || { cat log; fail "dropout"; }
    grep -q '^context: 16 tokens over 2 processes, 8 each' log || { cat log; fail "no line about the context"; }
    grep -q '^ring of keys and values: .* hidden' log || { cat log; fail "no line about the ring"; }
    rm -rf m && mpi 3 train "${words[@]}" -o m --context-parallel 2 2>log && fail "2 does not divide 3"
    expect_line '--context-parallel is 2 and must divide the number of processes, which is 3' log
    "$attend" train "${words[@]}" -o m --context-parallel 2 2>log && fail "one process cannot divide a sequence"
    expect_line '--context-parallel is 2 and must divide the number of processes, which is 1' log
    read -ra words <<<"$(architecture_options transformer)"
    mpi 2 train "${words[@]}" -o m --context-parallel 2 2>log && fail "a translation model must be rejected"
    expect_line '--context-parallel applies only to language models' log
    [ ! -e m ] || fail "a folder was created"
    mpi 3 bench ring --tokens 1000 --dim 16 --check --json >report
    sed -n 's/.*_difference": \([0-9.e-]*\),*/\1/p' report |
      awk '$1 > 4e-6 { exit 1 } END { exit NR != 2 }' || { cat report; fail "the ring's attention differs"; } ;;
  # Lines are divided, and the output is that of one process.
  lines)
    make_corpora
    train pairs 1 1 transformer --steps 60
    train labels 1 1 encoder
    train text 1 1 gpt
    head -n 100 text.txt >lines.txt
    check() {
      "$attend" "$@" -o expected.txt </dev/null
      mpi 3 "$@" -o got.txt
      same expected.txt got.txt
    }
    check translate pairs -i lines.txt --scores --beam 2
    check classify labels -i lines.txt --json
    check embed labels -i lines.txt
    check generate text -i lines.txt --tokens 8
    check score text -i lines.txt
    check score pairs --source text.txt --target text.txt
    check score text -i lines.txt --total
    for _ in $(seq 20); do cat lines.txt; done >many.txt  # results beyond the buffer of the output
    check embed labels -i many.txt
    check classify labels -i many.txt --json
    "$attend" generate text --tokens 2 <lines.txt >expected.txt
    mpirun -n 2 "$attend" generate text --tokens 2 <lines.txt >got.txt
    same expected.txt got.txt
    mpi 2 generate text --tokens 2 --greedy >got.txt
    "$attend" generate text --tokens 2 --greedy </dev/null >expected.txt
    same expected.txt got.txt
    mpirun -n 2 "$attend" evaluate text - <lines.txt 2>log && fail "only one process has standard input"
    expect_line '- is standard input, which only one process has' log
    "$attend" translate pairs <lines.txt >expected.txt
    mpirun -n 2 "$attend" translate pairs <lines.txt >got.txt
    same expected.txt got.txt
    mpi 2 translate pairs "a1 a2" >got.txt
    [ "$(wc -l <got.txt)" = 1 ] || fail "expected one line"
    for files in 'pairs pairs.tsv' 'labels labels.tsv' 'text text.txt' 'text text.txt --by-line'; do
      "$attend" evaluate $files --json | sed 's/"\(seconds\|[a-z_]*per_second\)":[^,}]*//g' >expected.txt
      mpi 3 evaluate $files --json | sed 's/"\(seconds\|[a-z_]*per_second\)":[^,}]*//g' >got.txt
      diff expected.txt got.txt || fail "evaluate $files"
    done ;;
  # A killed process ends the job with one line; the training resumes with the same result.
  killed | stopped)
    make_corpora
    steps=2000
    read -ra words <<<"$(architecture_options gpt)"
    signal=KILL expected='rank 1 .* is lost: its process [0-9]* has ended'
    [ "$case_name" = killed ] || signal=STOP expected='rank 1 .* is lost: no sign of life for 5 s'
    export ATTEND_HEARTBEAT=5
    mpirun -n 2 "$attend" train "${words[@]}" "${common[@]}" --steps $steps --schedule constant --warmup 0 --lr 0.001 \
      --validate-every $steps --checkpoint-every 5 -o cut </dev/null 2>running.log &
    job=$!
    wait_for_step_10
    victim=$(pgrep -P $job -f "attend train" | tail -n 1)
    start=$SECONDS
    kill -$signal "$victim"
    wait $job && fail "the job must fail"
    [ $((SECONDS - start)) -le 30 ] || fail "the job ended after $((SECONDS - start)) seconds"
    grep -q "^attend: $expected" running.log || grep -q 'mpirun noticed that process rank 1' running.log ||
      { cat running.log; fail "no reason"; }
    [ "$(grep -c '^attend: ' running.log)" -le 1 ] || { cat running.log; fail "more than one line"; }
    saved=$(saved_step cut)
    [ $((saved % 5)) = 0 ] && [ "$saved" -ge 5 ] || fail "expected a checkpoint every 5 steps, got step $saved"
    goal=$((saved + 10))
    mpi 2 train --resume cut --steps $goal --validate-every $goal --quiet
    train whole 1 2 gpt --steps $goal --schedule constant --warmup 0 --lr 0.001 --validate-every $goal
    same whole/model.safetensors cut/model.safetensors ;;
  # Two hosts as network namespaces with their own names and addresses: the same bits; then the cable between them is cut.
  hosts)
    id=$$ near=attend-$$-a far=attend-$$-b
    ip netns add "$near" 2>/dev/null && ip netns add "$far" && ip link add "va$id" type veth peer name "vb$id" &&
      unshare --uts true || { echo "skipped: this user may not create network namespaces"; exit 77; }
    # A daemon of mpirun may outlive the cut.
    trap 'for one in "$near" "$far"; do ip netns pids $one | xargs -r kill -9; ip netns del $one; done; rm -rf "$work"' EXIT
    ip link set "va$id" netns "$near" name eth0
    ip link set "vb$id" netns "$far" name eth0
    for name in "$near 10.77.0.1" "$far 10.77.0.2"; do
      read -r space address <<<"$name"
      ip -n "$space" addr add "$address/24" dev eth0
      ip -n "$space" link set eth0 up
      ip -n "$space" link set lo up
    done
    cat >agent <<AGENT
#!/bin/sh
shift
exec ip netns exec $far unshare --uts sh -c "hostname node-b; \$*"
AGENT
    chmod +x agent
    two_hosts() {
      ip netns exec "$near" unshare --uts sh -c 'hostname node-a; exec "$@"' - mpirun --mca plm_rsh_agent "$work/agent" \
        --mca oob_tcp_if_include eth0 --mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 2 \
        --mca oob_tcp_keepalive_probes 2 --mca btl tcp,self --mca btl_tcp_if_include eth0 \
        -H 10.77.0.1:1,10.77.0.2:1 -x ATTEND_THREADS -x ATTEND_HEARTBEAT "$attend" "$@"
    }
    make_corpora
    export ATTEND_HEARTBEAT=8
    train one 1 2 gpt
    read -ra words <<<"$(architecture_options gpt)"
    # The link may not be up yet when mpirun starts its daemon.
    two_hosts train "${words[@]}" "${common[@]}" -o two </dev/null 2>log || { sleep 2; rm -rf two;
      two_hosts train "${words[@]}" "${common[@]}" -o two </dev/null 2>log; } || { cat log; fail "two hosts"; }
    grep -q '2 processes on 2 hosts' log || { cat log; fail "expected two hosts"; }
    same one/model.safetensors two/model.safetensors
    two_hosts train "${words[@]}" "${common[@]}" --steps 100000 --validate-every 100000 --checkpoint-every 5 -o cut \
      </dev/null 2>running.log &
    job=$!
    wait_for_step_10
    start=$SECONDS
    ip -n "$near" link set eth0 down
    wait $job && fail "a cut cable must end the job"
    [ $((SECONDS - start)) -le 30 ] || fail "the job ended after $((SECONDS - start)) seconds"
    grep -q '^attend: rank [01] (node-[ab]) is lost\|node-b\|10.77.0.2' running.log ||
      { cat running.log; fail "no reason"; }
    "$attend" train --resume cut --steps $(($(saved_step cut) + 1)) --quiet ;;
  # A process that does not see the model folder trains on a copy.
  disks)
    unshare -m true 2>/dev/null || { echo "skipped: this user may not create mount namespaces"; exit 77; }
    make_corpora
    mkdir own
    train one 1 2 gpt
    read -ra words <<<"$(architecture_options gpt)"
    options=(train "${words[@]}" "${common[@]}" -o own/m --quiet)
    mpirun -n 1 "$attend" "${options[@]}" : -n 1 unshare -m sh -c 'mount -t tmpfs none own && exec "$@"' - \
      "$attend" "${options[@]}" </dev/null 2>log || { cat log; fail "folders that are not shared"; }
    same one/model.safetensors own/m/model.safetensors
    mpirun -n 1 "$attend" "${options[@]}" --overwrite --shard optimizer : -n 1 unshare -m sh -c \
      'mount -t tmpfs none own && exec "$@"' - "$attend" "${options[@]}" --overwrite --shard optimizer </dev/null 2>log &&
      fail "--shard optimizer needs a shared folder"
    expect_line 'needs a folder that all hosts see' log ;;
  # Ctrl-C in any process stops all after the same step, with a checkpoint.
  interrupted)
    make_corpora
    read -ra words <<<"$(architecture_options gpt)"
    mpirun -n 2 "$attend" train "${words[@]}" "${common[@]}" --steps 100000 --validate-every 100000 -o m \
      </dev/null 2>running.log &
    job=$!
    wait_for_step_10
    kill -USR1 "$(pgrep -P $job -f 'attend train' | tail -n 1)"
    wait $job && fail "an interrupted training must not succeed"
    grep -q 'everything is saved' running.log || { cat running.log; fail "no checkpoint"; } ;;
  # Errors of one process, and processes that differ.
  errors)
    make_corpora
    read -ra words <<<"$(architecture_options gpt)"
    options=("${words[@]}" "${common[@]}" -o m --quiet)
    mpirun -n 1 "$attend" train "${options[@]}" : -n 1 "$attend" train "${options[@]}" --seed 2 2>log </dev/null &&
      fail "other options must be rejected"
    expect_line 'rank 1 (.*) was started with other options than rank 0' log
    [ ! -e m ] || fail "a folder was created"
    mpi 2 train gpt missing.txt -o m 2>log && fail "a missing file must fail"
    expect_line 'missing.txt' log
    mpi 2 train nothing text.txt -o m 2>log && fail "an unknown architecture must fail"
    expect_line "unknown architecture" log
    # A full disk.
    mkdir small
    if mount -t tmpfs -o size=128k none small 2>/dev/null; then
      trap 'umount "$work/small"; rm -rf "$work"' EXIT
      mpi 2 train "${words[@]}" "${common[@]}" -o small/m --quiet 2>log && fail "a full disk must fail"
      expect_line 'small/m.*: ' log
    fi ;;
  *) fail "unknown case $case_name" ;;
esac

#!/usr/bin/env bash
# cluster.sh ATTEND OUTPUT [SOURCE TARGET]: how training scales over processes on one machine, PROCESSES (default: 1 2 4 8)
# of THREADS threads (default: 2). For each number of processes it prints the rate of the job, the rate of as many processes
# that train independently, the ratio of both, the same ratio if all independent processes were as slow as the slowest
# one (no job is faster, because its processes wait for each other), the share of the exchange that the computation hides,
# and the time that a process waits for slower ones. The WORKLOADS are multi30k, its recipe (on SOURCE and TARGET, or on
# made-up pairs), and gpt2, steps of its size (124M): STEPS of these (default: 8), ten times as many of the recipe. Rates
# leave the first quarter of the steps out, in which memory is touched for the first time.
set -euo pipefail
attend=$(realpath "$1") output=$2
threads=${THREADS:-2}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir -p "$output"
cd "$output"
if [ $# -ge 4 ]; then cp "$3" source.txt; cp "$4" target.txt
else
  awk 'BEGIN { srand(1); for (i = 0; i < 29000; ++i) { n = 6 + int(rand() * 14); s = ""
    for (j = 0; j < n; ++j) s = s "w" int(rand() * rand() * 9000) " "; print s } }' >source.txt
  tr w v <source.txt >target.txt
fi
if [ ! -e text.txt ]; then for _ in 1 2 3 4; do cat source.txt; done >text.txt; fi

workload() {
  case $1 in
    multi30k) echo transformer source.txt target.txt --preset tiny --batch-tokens 4096 --dropout 0.25 \
                   --tokenizer word --vocabulary 10000 --steps $((10 * ${STEPS:-8})) ;;
    gpt2) echo gpt text.txt --dim 768 --heads 12 --layers 12 --ffn-dim 3072 --context 256 --batch 4 --tokenizer word \
               --vocabulary 50257 --steps ${STEPS:-8} ;;
  esac
}
# field FILE NAME: a number in the report of a finished training.
field() { sed -n "s/.*\"$2\":\([0-9.e+-]*\).*/\1/p" "$1"; }
# rate FOLDER: tokens per second of a training, from its log.
rate() {
  sed -n 's/^{"step":[0-9]*,"epoch".*"tokens_per_second":\([0-9.e+-]*\),"seconds":\([0-9.e+-]*\)}$/\1 \2/p' "$1/training.jsonl" |
    awk '{ rates[NR] = $1; ends[NR] = $2 }
         END { for (i = int(NR / 4) + 2; i <= NR; ++i) { t = ends[i] - ends[i - 1]; tokens += rates[i] * t; time += t }
               print tokens / time }'
}
common=(--device cpu --threads "$threads" --validate-every 1000000 --validation-share 0.001 --samples 0 --quiet --json
        --overwrite --log-every 1)

printf '%-10s %9s %11s %12s %7s %7s %12s %7s %10s\n' workload processes tokens/s independent ratio slowest \
       'exchange ms' hidden 'waiting ms'
for name in ${WORKLOADS:-multi30k gpt2}; do
  read -ra words <<<"$(workload $name)"
  steps=${words[-1]}
  for count in ${PROCESSES:-1 2 4 8}; do
    # Independent processes, at the same time. They get cores of their own if the processes of the job do.
    jobs=()
    for ((i = 0; i < count; ++i)); do
      cores=$((i * threads))-$(((i + 1) * threads - 1))
      [ $((2 * count * threads)) -gt "$(nproc)" ] || cores=0-$(($(nproc) - 1))
      taskset -c "$cores" "$attend" train "${words[@]}" "${common[@]}" -o "alone-$i" >"alone-$i.json" &
      jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job"; done
    read -r independent slowest < <(for ((i = 0; i < count; ++i)); do rate "alone-$i"; done |
      awk '{ sum += $1; if (NR == 1 || $1 < least) least = $1 } END { print sum, least * NR / sum }')
    mpirun -n "$count" "$attend" train "${words[@]}" "${common[@]}" -o together </dev/null >together.json
    exchange=$(field together.json exchange_seconds) exposed=$(field together.json exposed_seconds)
    waited=$(field together.json waited_seconds)
    awk -v n=$name -v p=$count -v r="$(rate together)" -v l="$slowest" -v i="$independent" -v x="${exchange:-0}" -v e="${exposed:-0}" -v s="$steps" \
      -v w="${waited:-0}" \
      'BEGIN { hidden = x ? 100 * (1 - e / x) : 0
               printf "%-10s %9d %11.0f %12.0f %7.3f %7.3f %12.1f %6.0f%% %10.1f\n", n, p, r, i, r / i, l,
                      1000 * x / s, hidden, 1000 * w / s }'
  done
done

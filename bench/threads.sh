#!/bin/sh
# Cost of parallel loops by threading runtime: builds with OpenMP and without, in turn.
#
#     sh bench/threads.sh WORK-FOLDER MODEL IDS COMMAND...
#
# WORK-FOLDER has room for two bytes per weight. MODEL is a small one, say ../shared/models/tiny-f16.gguf, and IDS a file of its token
# ids. COMMANDs are builds of gquant (-DGQUANT_OPENMP=OFF makes the one without), and build/make-model lies beside
# the first of them. WEIGHTS (1e8), THREADS (2), ROUNDS (5) and HOGS (2), which are at work beside the evaluation, can be
# set in the environment. Medians of seconds, and their ratio to the first. Needs GNU time.
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
work=$1 model=$2 ids=$3
shift 3
weights=${WEIGHTS:-1e8} threads=${THREADS:-2} rounds=${ROUNDS:-5} hogs=${HOGS:-2}
in=$work/threads-$weights.gguf importance=$work/threads-$weights.dat copy=$work/threads-copy.gguf
out=$work/threads-out.gguf times=$work/threads-times log=$work/threads-log
. "$(dirname "$0")/measure.sh"
[ -f "$importance" ] || "$(dirname "$1")/make-model" --weights "$weights" --imatrix "$importance" "$in"
"$1" -q --force "$model" "$copy" Q4_0 "$threads"

commands=$*

table() { # title, input, words of the command...
    title=$1 from=$2
    shift 2
    rm -f "$times"
    for _ in $(seq "$rounds"); do
        for command in $commands; do measure "$(basename "$command")" "$from" "$command" -q --force "$@"; done
    done
    printf '\n%s, %s threads, medians of %s rounds\n\n' "$title" "$threads" "$rounds"
    print_medians "$(basename "${commands%% *}")"
}

table "$weights weights to Q4_K_M" "$in" --imatrix "$importance" "$in" "$out" Q4_K_M "$threads"
table "Calibration with $(wc -w <"$ids") tokens" "$model" --threads "$threads" --calibrate-ids "$ids" --measure-file none "$model" "$out" Q4_K_M
pids=
for _ in $(seq "$hogs"); do
    yes >/dev/null &
    pids="$pids $!"
done
# Their ids are words.
# shellcheck disable=SC2086
trap 'kill $pids' EXIT
table "Evaluation of 2,048 tokens beside $hogs busy processes" "$model" evaluate --threads "$threads" --ids "$ids" --tokens 2048 --context 128 --scores-file none "$model" "$copy"
rm -f "$out" "$times" "$log" "$copy"

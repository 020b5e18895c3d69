#!/bin/sh
# The whole command compared with llama-quantize and cp, in turn: Q4_K_M with an imatrix, two threads.
#
#     sh bench/whole.sh BUILD-FOLDER WORK-FOLDER [PEER-FOLDER]
#
# PEER-FOLDER is what ../shared/peer/setup.sh has filled; without it llama.cpp is skipped. WEIGHTS (1e9), TYPE
# (Q4_K_M), THREADS (2) and ROUNDS (3) can be set in the environment. Prints medians over the rounds, and their ratio
# to gquant's. Needs GNU time, three bytes of disk and of memory per weight: the page cache is warm.
# gquant's output is on the disk when it ends and that of cp is not, hence the line of cp with sync.
set -eu
build=$1 work=$2 peer=${3-}
weights=${WEIGHTS:-1e9} type=${TYPE:-Q4_K_M} threads=${THREADS:-2} rounds=${ROUNDS:-3}
in=$work/whole-$weights-F16.gguf importance=$work/whole-$weights.dat
out=$work/whole-out.gguf times=$work/whole-times log=$work/whole-log
. "$(dirname "$0")/measure.sh"

[ -f "$importance" ] || "$build/make-model" --weights "$weights" --imatrix "$importance" "$in"
number=$("$build/gquant" types | awk -v type="$type" '$1 == type { print $2 }')
library=$peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64

rm -f "$times"
for _ in $(seq "$rounds"); do
    measure 'cp' "$in" cp "$in" "$out"
    measure 'cp and sync' "$in" sh -c 'cp "$1" "$2" && sync "$2"' - "$in" "$out"
    measure 'gquant' "$in" "$build/gquant" -q --imatrix "$importance" "$in" "$out" "$type" "$threads"
    [ -z "$peer" ] || measure 'llama.cpp' "$in" env LD_LIBRARY_PATH="$library" \
        "$peer/peer-quantize" "$library" "$in" "$out" "$number" "$threads" "$importance"
done

printf '%s\n\n' "$type, $weights weights, $threads threads, medians of $rounds rounds"
print_medians gquant
rm -f "$out" "$times" "$work/whole-log"

#!/bin/sh
# Hugging Face folders compared with the same models as one GGUF each, in turn, with two threads: a dense BF16 model in
# four files, a mixture of experts of 4096 x 12288, and FP8 matrices with scales per 128 x 128 block.
#
#     sh bench/folder.sh BUILD-FOLDER WORK-FOLDER
#
# WEIGHTS (1e9; of the mixture 2.6 times as many), TYPE (Q4_K_M), THREADS (2), ROUNDS (3) and KINDS (plain experts fp8)
# can be set in the environment. Prints medians over the rounds of seconds and of seconds of processors, and the largest
# peak of memory; then the same for a conversion to BF16, and for cp of the folder. Needs GNU time, and 14 bytes of disk per
# weight of the mixture at once; folders and files stay for the next run. The page cache is warm if memory allows.
set -eu
build=$1 work=$2
weights=${WEIGHTS:-1e9} type=${TYPE:-Q4_K_M} threads=${THREADS:-2} rounds=${ROUNDS:-3} kinds=${KINDS:-plain experts fp8}
out=$work/folder-out.gguf times=$work/folder-times log=$work/folder-log
. "$(dirname "$0")/measure.sh"

make() { # kind: its folder, and the GGUF that gquant makes of it
    folder=$work/folder-$weights-$1
    [ -f "$folder.gguf" ] && return
    n=$weights
    case $1 in
    plain) set -- --type BF16 ;;
    experts)
        set -- --experts 8 --width 4096
        n=$(awk "BEGIN { printf \"%.0f\", 2.6 * $weights }")
        ;;
    fp8) set -- --type F8_E4M3 ;;
    esac
    "$build/make-model" --folder --shards 4 "$@" "$folder" "$n"
    "$build/gquant" -q "$folder" "$folder.gguf" BF16 "$threads"
}

rm -f "$times"
for kind in $kinds; do
    make "$kind"
    for _ in $(seq "$rounds"); do
        measure "$kind, folder to $type" "$folder" "$build/gquant" -q "$folder" "$out" "$type" "$threads"
        measure "$kind, GGUF to $type" "$folder.gguf" "$build/gquant" -q "$folder.gguf" "$out" "$type" "$threads"
        measure "$kind, folder to BF16" "$folder" "$build/gquant" -q "$folder" "$out" BF16 "$threads"
        measure "$kind, cp -r of the folder" "$folder" cp -r "$folder" "$out"
        measure "$kind, cp -r and sync" "$folder" sh -c 'cp -r "$1" "$2" && sync "$2"/*' - "$folder" "$out"
    done
done

printf '%s weights, %s threads, medians of %s rounds\n\n' "$weights" "$threads" "$rounds"
print_medians
rm -rf "$out" "$times" "$work/folder-log"

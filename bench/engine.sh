#!/bin/sh
# Time and peak memory of whole runs, by size of the model and by threads; with an incumbent's quantizer beside it
# where PEER holds a command that takes IN OUT FILETYPE-ID THREADS.
#
#     sh bench/engine.sh BUILD-FOLDER WORK-FOLDER [GB...]
#
# Needs GNU time. WORK-FOLDER should have room for two and a half times the largest size, and memory for its cache.
set -eu
build=$1 work=$2
shift 2
[ $# -gt 0 ] || set -- 0.1 1 10

measure() { # label, command...
    label=$1
    shift
    /usr/bin/time -f "| $label | %e | %U | %S | %M |" "$@" 2>&1 >/dev/null | tail -1
}

echo '| model, file type, threads | seconds | user | system | peak KiB |'
echo '| --- | --- | --- | --- | --- |'
for size; do
    in=$work/engine-$size-F16.gguf out=$work/engine-out.gguf
    weights=$(awk "BEGIN { printf \"%.0f\", $size * 5e8 }")
    [ -f "$in" ] || "$build/make-model" --weights "$weights" "$in"
    cat "$in" >/dev/null
    for threads in 1 2; do
        for type in Q8_0 Q4_0 Q4_K_M; do
            measure "$size GB, $type, $threads" "$build/gquant" -q --force "$in" "$out" $type $threads
        done
    done
    measure "$size GB, Q4_K_M Q5_K_M Q6_K Q8_0 in one read, 2" \
        "$build/gquant" -q --force -t 2 "$in" --out-dir "$work" Q4_K_M Q5_K_M Q6_K Q8_0
    [ -z "${PEER-}" ] || measure "$size GB, Q4_K_M (15), 2, incumbent" $PEER "$in" "$out" 15 2
    measure "$size GB, cp" cp "$in" "$out"
    rm -f "$out" "$work/engine-$size"-Q*.gguf
done

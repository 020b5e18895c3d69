#!/bin/sh
# The whole command beside llama.cpp's and beside cp, in turn: Q4_K_M with importance data, two threads.
#
#     sh bench/whole.sh BUILD-FOLDER WORK-FOLDER [PEER-FOLDER]
#
# PEER-FOLDER is what ../shared/peer/setup.sh has filled; without it llama.cpp is left out. WEIGHTS (1e9), TYPE
# (Q4_K_M), THREADS (2) and ROUNDS (3) can be set in the environment. Prints medians over the rounds, and how many
# times gquant's they are. Needs GNU time, three bytes of disk and of memory per weight: the page cache is warm.
# gquant's output is on the disk when it ends and that of cp is not, hence the line of cp with sync.
set -eu
build=$1 work=$2 peer=${3-}
weights=${WEIGHTS:-1e9} type=${TYPE:-Q4_K_M} threads=${THREADS:-2} rounds=${ROUNDS:-3}
in=$work/whole-$weights-F16.gguf importance=$work/whole-$weights.dat
out=$work/whole-out.gguf times=$work/whole-times

[ -f "$importance" ] || "$build/make-model" --weights "$weights" --imatrix "$importance" "$in"
number=$("$build/gquant" types | awk -v type="$type" '$1 == type { print $2 }')
library=$peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64

measure() { # name, command...
    name=$1
    shift
    rm -f "$out"
    sync # nothing of the command before is left to write
    cat "$in" >/dev/null
    /usr/bin/time -f "%e %U %S %M $name" -a -o "$times" "$@" >"$work/whole-log" 2>&1 || {
        cat "$work/whole-log" >&2
        exit 1
    }
}

rm -f "$times"
for _ in $(seq "$rounds"); do
    measure 'cp' cp "$in" "$out"
    measure 'cp and sync' sh -c 'cp "$1" "$2" && sync "$2"' - "$in" "$out"
    measure 'gquant' "$build/gquant" -q --imatrix "$importance" "$in" "$out" "$type" "$threads"
    [ -z "$peer" ] || measure 'llama.cpp' env LD_LIBRARY_PATH="$library" \
        "$peer/peer-quantize" "$library" "$in" "$out" "$number" "$threads" "$importance"
done

printf '%s\n\n' "$type, $weights weights, $threads threads, medians of $rounds rounds"
awk '
    function median(list,    n, v, i, j, t) {
        n = split(list, v, " ")
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) {
                t = v[j]
                v[j] = v[j - 1]
                v[j - 1] = t
            }
        return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
    }
    {
        name = substr($0, index($0, $5))
        if (!(name in wall)) order[++n] = name
        wall[name] = wall[name] " " $1
        cpu[name] = cpu[name] " " ($2 + $3)
        if ($4 > peak[name]) peak[name] = $4
    }
    END {
        print "| | seconds | CPU seconds | peak MiB | seconds, to gquant | CPU, to gquant |"
        print "|---|---|---|---|---|---|"
        for (i = 1; i <= n; i++) {
            name = order[i]
            s = median(wall[name])
            c = median(cpu[name])
            printf "| %s | %.2f | %.2f | %.0f | %.2f | %.2f |\n", name, s, c, peak[name] / 1024,
                s / median(wall["gquant"]), c / median(cpu["gquant"])
        }
    }' "$times"
rm -f "$out" "$times" "$work/whole-log"

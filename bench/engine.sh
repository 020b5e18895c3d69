#!/bin/sh
# Time and memory of whole runs by model size and threads, with a profile. (Compared with llama.cpp: whole.sh.)
#
#     sh bench/engine.sh BUILD-FOLDER WORK-FOLDER [GB...]      sizes of F16 models, default 0.1 1 10
#
# Set in the environment: TYPES (Q8_0 Q4_0 Q4_K_M), THREADS (1 2), CACHE (warm; cold: the input's pages are dropped
# before each run), PROFILE (set: profile with perf, which may need root, instead of timing). Needs GNU time or perf;
# WORK-FOLDER should have room for two and a half times the largest size.
#
# Times are valid on a busy machine: per worker the kernel's counts of running, waiting for a CPU, and sleeping
# (disk, locks, other workers).
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
build=$1 work=$2
shift 2
[ $# -gt 0 ] || set -- 0.1 1 10
out=$work/engine-out.gguf

# The kernel's statistics of each thread, every 20 ms until the process ends.
watch_threads() { # PID
    while grep -H . /proc/uptime "/proc/$1/task"/*/schedstat 2>/dev/null; do sleep 0.02; done
}

# Per thread, from its first sample to the last in which it had run: seconds running, waiting for a CPU, sleeping.
# Workers are the N threads that ran longest; their sums.
add_up() { # N
    awk -F '[/: ]' -v n="$1" '
        $3 == "uptime" { now = $4; next }
        {
            id = $5
            if (!(id in first)) { first[id] = now; run0[id] = $7; queue0[id] = $8 }
            if (!(id in run) || run[id] != $7) { run[id] = $7; queue[id] = $8; last[id] = now }
        }
        END {
            for (; n > 0; n--) {
                best = ""
                for (id in run) if (best == "" || run[id] > run[best]) best = id
                if (best == "") break
                r = (run[best] - run0[best]) / 1e9
                q = (queue[best] - queue0[best]) / 1e9
                ran += r; queued += q; slept += last[best] - first[best] - r - q
                delete run[best]
            }
            printf "%.2f | %.2f | %.2f", ran, queued, slept < 0 ? 0 : slept
        }'
}

prepare() { # IN
    rm -f "$out"
    sync
    if [ "${CACHE-}" = cold ]; then dd if="$1" iflag=nocache count=0 status=none; else cat "$1" >/dev/null; fi
}

time_run() { # IN TYPE THREADS LABEL
    prepare "$1"
    /usr/bin/time -o "$work/engine-time" -f '%e | %U | %S | %M' "$build/gquant" -q -t "$3" "$1" "$out" "$2" &
    timer=$!
    while ! pid=$(pgrep -P $timer); do :; done
    workers=$(watch_threads "$pid" | add_up "$3")
    wait $timer
    printf '| %s, %s, %s | %s | %s |\n' "$4" "$2" "$3" "$(cat "$work/engine-time")" "$workers"
}

# Samples by system call or function.
profile_run() { # IN TYPE THREADS LABEL
    prepare "$1"
    perf record -q -F 499 -g -o "$work/engine-perf" "$build/gquant" -q -t "$3" "$1" "$out" "$2"
    perf script -i "$work/engine-perf" -F ip,sym 2>/dev/null | awk -v label="$4, $2, $3" '
        function kind() {
            if (stack ~ /pread64|fadvise/) return "read"
            if (stack ~ /pwrite64/) return "write"
            if (stack ~ /f(data)?sync/) return "sync"
            if (top ~ /^encode_/) return "encode"
            if (top ~ /^decode_b?f(16|32)_/) return "decode input"
            if (top ~ /^(decode|measure)_/) return "decode and measure"
            return top ~ /^crc32/ ? "CRC-32" : "other"
        }
        function close_sample() {
            if (top == "") return
            n[kind()]++
            all++
            top = stack = ""
        }
        NF == 0 { close_sample(); next }
        top == "" { top = $2 }
        { stack = stack " " $2 }
        END {
            close_sample()
            printf "| %s |", label
            m = split("read,decode input,encode,decode and measure,CRC-32,write,sync,other", order, ",")
            for (i = 1; i <= m; i++) printf " %.1f |", 100 * n[order[i]] / all
            print ""
        }'
    rm -f "$work/engine-perf"
}

if [ -n "${PROFILE-}" ]; then
    run=profile_run
    echo '| model, type, threads | read | decode input | encode | decode and measure | CRC-32 | write | sync | other |'
    echo '|---|---|---|---|---|---|---|---|---|'
else
    run=time_run
    echo '| model, type, threads | seconds | user | system | peak KiB | workers ran | waited for a CPU | slept |'
    echo '|---|---|---|---|---|---|---|---|'
fi
for size; do
    in=$work/engine-$size-F16.gguf
    [ -f "$in" ] || "$build/make-model" --weights "$(awk "BEGIN { printf \"%.0f\", $size * 5e8 }")" "$in"
    for type in ${TYPES:-Q8_0 Q4_0 Q4_K_M}; do
        for threads in ${THREADS:-1 2}; do $run "$in" "$type" "$threads" "$size GB"; done
    done
done
rm -f "$out" "$work/engine-time"

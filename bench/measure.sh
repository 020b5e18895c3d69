# Measures commands in turn, for scripts that source this file. They set $out (each command's output), $times (a file of
# figures) and $log (messages of the last command). Needs GNU time.

measure() { # name, input (a file or a folder), command...
    name=$1 input=$2
    shift 2
    rm -rf "$out"
    sync # nothing of the command before is left to write
    find "$input" -type f -exec cat {} + >/dev/null
    /usr/bin/time -f "%e %U %S %M $name" -a -o "$times" "$@" >"$log" 2>&1 || {
        cat "$log" >&2
        exit 1
    }
}

print_medians() { # prints a table; with a name, also the ratio of the others' figures to that one's
    awk -v other="${1-}" '
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
        print "| | seconds | CPU seconds | peak MiB |" (other ? " seconds, to " other " | CPU, to " other " |" : "")
        print "|---|---|---|---|" (other ? "---|---|" : "")
        for (i = 1; i <= n; i++) {
            s = median(wall[order[i]])
            c = median(cpu[order[i]])
            printf "| %s | %.2f | %.2f | %.1f |", order[i], s, c, peak[order[i]] / 1024
            if (other) printf " %.2f | %.2f |", s / median(wall[other]), c / median(cpu[other])
            print ""
        }
    }' "$times"
}

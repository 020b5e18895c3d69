#!/bin/sh
# KL divergence of gquant's files compared with llama.cpp's: same model, file type and imatrix.
#
#     sh bench/quality.sh BUILD-FOLDER WORK-FOLDER PEER-FOLDER MODEL.gguf TOKENS.u16 IMATRIX.dat [TYPE...]
#
# PEER-FOLDER is what ../shared/peer/setup.sh has filled. Each TYPE (default: those of bench/results/small-models.md) is made
# four times: by either, without and with the imatrix. Prints mean KL divergence from the base model, the ratio
# and its standard error, and the difference in its own standard errors (paired: over the same windows of text), above
# 0 where gquant's is less. EFFORT (default) and TOKENS (40000) can be set in the environment. With CALIBRATE, a file
# of decimal ids, each TYPE is made once more, calibrated on these in windows of CONTEXT (128) tokens, and compared
# with llama.cpp's file with an imatrix. STEPS is a list for --calibrate-steps.
#
# With OUTLIERS, a seed and a number ("7 300"), all is measured on a model of the same function that is harder to
# round, as large models are: 1 % of the columns at every norm, at ffn_down and at output are 10 to 300 times larger
# (../shared/models/make_outliers.py, which needs numpy; MODEL is a dense llama). Its imatrix is computed on
# the tokens of CALIBRATE.
#
# bench-divergence runs dense llamas only. For other architectures, and for windows of another size, EVALUATE is the
# tokens of a window: `gquant evaluate` then measures, and jq reads the figures.
set -eu
build=$1 work=$2 peer=$3 model=$4 tokens=$5 importance=$6
shift 6
[ $# -gt 0 ] || set -- Q2_K Q3_K_M Q4_K_S Q4_K_M Q5_K_S Q6_K IQ4_XS
library=$peer/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64

quietly() { # command...
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
}

if [ "${OUTLIERS:-}" ]; then
    # shellcheck disable=SC2086 # two arguments
    quietly "${PYTHON:-python3}" ../shared/models/make_outliers.py "$model" "$work/outliers.gguf" $OUTLIERS
    model=$work/outliers.gguf importance=$work/outliers.dat
    quietly "$build/gquant" imatrix compute -q --force --process-output --ids "$CALIBRATE" \
        --context "${CONTEXT:-128}" "$model" "$importance"
fi

files=
for type; do
    number=$("$build/gquant" types | awk -v type="$type" '$1 == type { print $2 }')
    for on in off on; do
        theirs=$work/$type,$on,llama.cpp.gguf ours=$work/$type,$on,gquant.gguf data=-
        [ $on = off ] || data=$importance
        quietly env LD_LIBRARY_PATH="$library" \
            "$peer/peer-quantize" "$library" "$model" "$theirs" "$number" 1 "$data"
        [ $on = on ] && data=--imatrix=$importance || data=
        quietly "$build/gquant" -q --force --effort "${EFFORT:-default}" ${data:+"$data"} "$model" "$ours" "$type"
        files="$files $type,$on,llama.cpp.gguf $type,$on,gquant.gguf"
    done
    [ "${CALIBRATE:-}" ] || continue
    ln -f "$theirs" "$work/$type,calibrated,llama.cpp.gguf"
    quietly "$build/gquant" -q --force --effort "${EFFORT:-default}" --calibrate-ids "$CALIBRATE" \
        --context "${CONTEXT:-128}" --calibrate-steps "${STEPS:-default}" "$model" \
        "$work/$type,calibrated,gquant.gguf" "$type"
    files="$files $type,calibrated,llama.cpp.gguf $type,calibrated,gquant.gguf"
done

build=$(realpath "$build") model=$(realpath "$model") tokens=$(realpath "$tokens")
cd "$work"

# Prints for each file: name, perplexity, KL divergence, its standard error, share of equal top-1 tokens, and the
# difference of the KL from that of the file before it, with its standard error.
# shellcheck disable=SC2086 # names made above
evaluate() {
    if [ ! "${EVALUATE:-}" ]; then
        "$build/bench/bench-divergence" --tokens "${TOKENS:-40000}" "$model" "$tokens" $files
        return
    fi
    od -An -v -tu2 "$tokens" >ids
    "$build/gquant" -q evaluate --json --context "$EVALUATE" --tokens "${TOKENS:-40000}" --ids ids "$model" $files |
        jq -r '.evaluation | .models as $models | .differences as $pairs | range(1; $models | length) as $i | $models[$i] |
            [.path, .perplexity, .divergence, .divergence_error, .same_top] +
            [$pairs[] | select(.a == $i - 1 and .b == $i) | -.difference, .error] | @csv' | tr -d '"'
    rm ids
}

evaluate | awk -F, '
    NR == 1 {
        print "| type | importance | llama.cpp KL | gquant KL | ratio | standard error | difference |"
        print "|---|---|---|---|---|---|---|"
    }
    $3 == "llama.cpp.gguf" { theirs = $5 }
    $3 == "gquant.gguf" {
        ratio = $5 / theirs
        printf "| %s | %s | %.6f | %.6f | %.3f | %.3f | %.1f |\n", $1, $2, theirs, $5, ratio, $9 / theirs, -$8 / $9
        fflush()
        sum[$2] += ratio
        n[$2]++
    }
    END {
        for (on in n) mean[on] = sum[on] / n[on]
        printf "\nmean of ratios: %.3f without importance data, %.3f with it", mean["off"], mean["on"]
        printf n["calibrated"] ? ", %.3f calibrated\n" : "\n", mean["calibrated"]
    }'
# shellcheck disable=SC2086
rm -f $files log

#!/bin/sh
# KL divergence of named mixes, and of --target-size with exactly their sizes.
#
#     sh bench/target.sh BUILD-FOLDER WORK-FOLDER MODEL-F16.gguf TOKENS.u16 [IMATRIX]
#
# For a model that bench-divergence runs. TYPES and N (tokens to score) may be set.
set -eu
build=$1 work=$2 in=$2/target-in.gguf imatrix=${5:+--imatrix=$5}
cp -L "$3" "$in" # the measurements are kept beside it
echo '| size of | bytes | its KL | target: bytes | KL | ratio |'
echo '| --- | --- | --- | --- | --- | --- |'
for type in ${TYPES-Q3_K_S Q3_K_M Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K}; do
    "$build/gquant" -q --force $imatrix "$in" "$work/target-named.gguf" "$type"
    size=$(stat -c %s "$work/target-named.gguf")
    "$build/gquant" -q --force $imatrix --target-size "$size" "$in" "$work/target-out.gguf"
    "$build/bench/bench-divergence" --tokens "${N-40000}" "$in" "$4" "$work/target-named.gguf" "$work/target-out.gguf" |
        awk -F, -v type="$type" -v size="$size" -v bytes="$(stat -c %s "$work/target-out.gguf")" '
            NR == 2 { named = $3 }
            NR == 3 { printf "| %s | %d | %.6f | %d | %.6f | %.2f |\n", type, size, named, bytes, $3, $3 / named }'
done
rm -f "$work"/target-named.gguf "$work"/target-out.gguf "$in" "$in.gquant-measure"

#!/bin/sh
# Quantize one model with GNU parallel, on this machine or on several that share a file system:
#
#     sh parallel.sh PARTS [gquant options] IN OUT TYPE
#
# GQUANT_PARALLEL holds options for parallel, such as --sshloginfile hosts --workdir . --retries 3. When a share
# fails, run the same command again: shares that are done take no time.
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
parts=$1
shift

quoted=
for argument; do quoted="$quoted '$(printf %s "$argument" | sed "s/'/'\\\\''/g")'"; done

# Each share is a line of input. In a template, parallel would replace {1} and the like, which may stand in a pattern.
seq "$parts" | while read -r part; do printf '%s\0' "gquant --quiet --part $part/$parts $quoted"; done |
    parallel --null ${GQUANT_PARALLEL-}
gquant --join "$@"

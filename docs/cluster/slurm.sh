#!/bin/sh
# Quantize one model on many machines of a Slurm cluster that share a file system:
#
#     sh slurm.sh PARTS [gquant options] IN OUT TYPE
#
# PARTS array tasks each do their share, then one more joins them. A task that fails or is requeued goes on from
# where it stopped; when one fails for good, run the same command again: shares that are done take no time.
set -eu
[ $# -ge 4 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
parts=$1
shift

quoted=
for argument; do quoted="$quoted '$(printf %s "$argument" | sed "s/'/'\\\\''/g")'"; done

work=$(sbatch --parsable --job-name=gquant --array="1-$parts" --requeue ${GQUANT_SBATCH-} \
    --wrap="srun gquant --quiet --threads \${SLURM_CPUS_ON_NODE:-1} --part \$SLURM_ARRAY_TASK_ID/$parts $quoted")
sbatch --job-name=gquant-join --dependency="afterok:$work" --kill-on-invalid-dep=yes ${GQUANT_SBATCH-} \
    --wrap="srun gquant --join $quoted"

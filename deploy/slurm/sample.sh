#!/bin/sh
# Trajectories for `capuchin learn` by a Slurm array (docs/learning.md), one task for each shard:
#   sbatch --array=1-8 deploy/slurm/sample.sh DATA TREES RUNS
# The folders are on a disk that all nodes share, and each node has a Docker daemon of its own. A task
# that dies is started again by Slurm and goes on with its own shard; so does the same command. When
# all have ended, run `capuchin learn sample DATA --trees TREES --out RUNS` once: it joins them.
#SBATCH --job-name=capuchin-sample
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=24:00:00
#SBATCH --requeue
set -eu

if [ $# -ne 3 ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
	echo "usage: sbatch --array=1-N $0 DATA TREES RUNS" >&2
	exit 2
fi
if [ "${SLURM_ARRAY_TASK_MIN:-}" != 1 ]; then
	echo "Number the tasks from 1: --array=1-N." >&2
	exit 2
fi
exec capuchin learn sample "$1" --trees "$2" --out "$3" \
	--shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_MAX"

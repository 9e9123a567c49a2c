#!/bin/sh
# `capuchin learn train` on the machines of a Slurm job, two here (docs/learning.md):
#   sbatch deploy/slurm/train.sh policy ROWS --base MODEL --out TRAINED --python V/bin/python
# All folders are on a disk that the machines share. Where one dies, all end; the same command goes on
# from the last checkpoint, on other machines, too.
#SBATCH --job-name=capuchin-train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --time=24:00:00
#SBATCH --requeue
set -eu

if [ $# -lt 2 ] || [ -z "${SLURM_JOB_NODELIST:-}" ]; then
	echo "usage: sbatch $0 policy|prm|orm ROWS --base MODEL --out TRAINED --python PYTHON" >&2
	exit 2
fi
MEET="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
export MEET
# shellcheck disable=SC2016 # each machine has a number of its own
exec srun --kill-on-bad-exit=1 sh -c 'exec capuchin learn train "$@" --set "meet=$MEET" \
	--set "node=$((SLURM_NODEID + 1))/$SLURM_NNODES"' train "$@"

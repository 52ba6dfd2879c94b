# shellcheck shell=bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What the demos share; they source it.

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
state=${DEMO_STATE:-/var/tmp/mw-demo}
bin=${MW_TOOLS_DIR:-$PWD/bin}

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() {
  printf '$ %s\n' "$*"
  "$@"
}
kubectl() { "$bin/kubectl" "$@"; }

# up FLAG...: brings a stack up, and has kubectl talk to it.
up() {
  local environment
  if [ "$(id -u)" != 0 ] || [ "$(uname)" != Linux ]; then
    echo "The demo runs real containers: it needs root on Linux." >&2
    exit 1
  fi
  environment=$(bin/localstack up --state "$state" "$@")
  eval "$environment"
  export KUBECACHEDIR="$state/kubectl-cache"
}

# grant lets the manager make tokens of the namespace's ServiceAccounts: templates ask for one
# unless they say that they do not.
grant() {
  run kubectl create rolebinding managedworkload-tokens --clusterrole=managedworkload-tokens \
    --serviceaccount=managedworkload-system:managedworkload-manager
}

# by_hand says how to continue after the demo.
by_hand() {
  local set="KUBECONFIG=$KUBECONFIG KUBECACHEDIR=$KUBECACHEDIR CONTAINER_RUNTIME_ENDPOINT=unix://$state/containerd.sock"
  local path=$PWD/bin down="make demo-down"
  [ "$bin" = "$path" ] || path+=:$bin
  [ "$state" = /var/tmp/mw-demo ] || down+=" DEMO_STATE=$state"
  echo "export $set PATH=$path:$state/bin:\$PATH"
  echo "Then kubectl, kubectl mw and crictl work. To end it: $down"
}

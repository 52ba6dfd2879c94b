#!/usr/bin/env bash
# Copyright The ManagedWorkload Authors.
# SPDX-License-Identifier: Apache-2.0
#
# A bad image on five nodes, from end to end on this machine: it is applied, noticed and
# reverted, and no running container is lost. Then a good one is rolled out. Leaves the
# stack up; "make demo-down" ends it.
set -euo pipefail

# shellcheck source=hack/demo/stack.sh
. "$(dirname "$0")/stack.sh"
nodes=5
work=hack/demo/fleet.yaml

# with EXPRESSION: the manifest, edited by sed.
with() { sed -e "$1" "$work"; }

# shares: what each node is to run, and whether it is ready.
shares() {
  run kubectl get nw --sort-by=.spec.nodeName -o custom-columns='NODE:.spec.nodeName,REVISION:.metadata.labels.controller-revision-hash,IMAGE:.spec.template.spec.containers[0].image,READY:.status.ready,RESTARTS:.status.restarts,STATUS:.status.summary'
}

# having IMAGE: how many nodes are to run an image.
having() {
  kubectl get nw -o jsonpath='{range .items[*]}{.spec.template.spec.containers[0].image}{"\n"}{end}' | grep -cxF "$1" || true
}

# containers: the process of the container of each node, as this machine's kernel sees it.
# It fails where it finds none: two empty answers would compare as the same processes.
containers() {
  local node id pid started
  kubectl get nw --sort-by=.spec.nodeName -o jsonpath='{range .items[*]}{.spec.nodeName}{" "}{.status.containerStatuses[0].containerID}{"\n"}{end}' |
    while read -r node id; do
      id=${id#containerd://}
      # Processes end while grep reads, which is no failure. An empty ID would match them all.
      pid=$( { [ -z "$id" ] || grep -lsF "$id" /proc/[0-9]*/cgroup || true; } | cut -d/ -f3 | sort -n | head -n 1)
      if [ -z "$pid" ] || ! started=$(ps -o lstart= -p "$pid"); then
        echo "No process of the container ${id:-without an ID} on $node." >&2
        return 1
      fi
      printf '%-8s pid %-8s started %s\n' "$node" "$pid" "$started"
    done
}

# condition TYPE: a condition of the workload in words.
condition() {
  kubectl get mw fleet -o jsonpath="{range .status.conditions[?(@.type==\"$1\")]}{.type}={.status}  {.reason}: {.message}{\"\\n\"}{end}"
}

title "Bringing up five nodes in $state: for each a containerd, a shim, a pod network and cgroups"
up --nodes "$nodes" --node-name node --with-registry
run kubectl get nodes

title "1. Apply a workload and wait until it is ready on all nodes"
run kubectl apply -f "$work"
run kubectl wait mw fleet --for=condition=Ready --timeout=120s
run kubectl get mw fleet
shares
echo
before=$(containers)
echo "$before"
if [ "$(wc -l <<<"$before")" != "$nodes" ]; then
  echo "These are not the processes of $nodes nodes." >&2
  exit 1
fi

title "2. A bad image: a tag that the registry does not have"
bad=managedworkload.dev/testprogram:v1.1
echo "\$ sed s/testprogram:v1/testprogram:v1.1/ $work | kubectl apply -f -"
with "s|testprogram:v1|testprogram:v1.1|" | kubectl apply -f -

title "3. It is noticed: the roll-out stops at one node, where the old container still runs"
run kubectl wait mw fleet --for=condition=Stalled --timeout=120s
run kubectl get mw fleet
condition Stalled
shares
run kubectl get events --field-selector reason=Failed -o custom-columns=NODEWORKLOAD:.involvedObject.name,REASON:.reason,MESSAGE:.message
if [ "$(having "$bad")" != 1 ]; then
  echo "$(having "$bad") nodes are to run the bad image, not 1." >&2
  exit 1
fi

title "4. It is reverted: the old file is applied again"
run kubectl apply -f "$work"
run kubectl wait mw fleet --for=condition=Ready --timeout=120s
run kubectl get mw fleet
shares

title "5. What it cost: nothing, the same processes run"
after=$(containers)
echo "$after"
if [ "$before" != "$after" ] || [ "$(having "$bad")" != 0 ]; then
  echo "These are not the processes of before:" >&2
  echo "$before" >&2
  exit 1
fi

title "6. A good image, two nodes at a time"
echo "\$ sed -e s/testprogram:v1/testprogram:v2/ -e 's/maxUnavailable: 1/maxUnavailable: 2/' $work | kubectl apply -f -"
with "s|testprogram:v1|testprogram:v2|; s|maxUnavailable: 1|maxUnavailable: 2|" | kubectl apply -f -
echo "\$ kubectl get mw fleet --watch"
kubectl get mw fleet --watch &
watch=$!
trap 'kill "$watch" 2>/dev/null || true' EXIT
kubectl wait mw fleet --for=condition=Ready --timeout=120s >/dev/null
kill "$watch"
shares
containers

title "The stack stays up. To continue by hand:"
echo "The manifest: $work"
by_hand

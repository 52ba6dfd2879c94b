// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

//	             an accepted template
//	                     |
//	                     v
//	                +---------+   nothing to do: waits for a wake
//	                | Syncing |<--------------------------------+
//	                +---------+---------------------------------+
//	                     |
//	                     |  deletion asked for, object gone, orphan,
//	                     |  or the workload ended by itself
//	                     v
//	              +-------------+  a container still runs: tried again
//	              | Terminating |<--------------------------------+
//	              +-------------+---------------------------------+
//	                     |  ^
//	 the runtime says    |  |  a container that was being started when
//	 that nothing runs   v  |  everything was killed runs after all
//	              +------------+   ended by itself: containers and logs
//	              | Terminated |   stay until the object is deleted
//	              +------------+
//	                     |
//	                     |  deletion: everything removed, final status
//	                     |  published, finalizer released
//	                     v
//	                 +---------+
//	                 | Removed |   the worker ends
//	                 +---------+
//
// (kubelet pod_workers.go:podWorkers)

// State is how far the life of a workload on this node has come.
type State string

// The states of a worker, in their order.
const (
	// Syncing: the containers are kept as the template says.
	Syncing State = "Syncing"
	// Terminating: everything is being killed; nothing is started any more.
	Terminating State = "Terminating"
	// Terminated: nothing runs and nothing is started any more.
	Terminated State = "Terminated"
	// Removed: nothing is left on the node, and the object is released.
	Removed State = "Removed"
)

// stateInput is what the next state depends on.
type stateInput struct {
	// terminate is what plan.DecideTermination says.
	terminate bool
	// deleted: the object is being deleted or is gone, or the
	// containers are orphans.
	deleted bool
	// stopped: the runtime says that no container runs.
	stopped bool
	// running: a container was found running when everything had been stopped.
	running bool
	// removed: nothing is left on the node, and the object is released.
	removed bool
}

// next is the one transition function: the state that follows the current one
// under the given input. It takes one step at a time, and the only one back leads
// to another kill, never to a start.
func (s State) next(in stateInput) State {
	switch {
	case s == Syncing && in.terminate:
		return Terminating
	case s == Terminating && in.stopped:
		return Terminated
	case s == Terminated && in.running:
		return Terminating
	case s == Terminated && in.deleted && in.removed:
		return Removed
	}
	return s
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"math/rand/v2"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	KillShim        Kind = "shim killed"
	StopShim        Kind = "shim stopped"
	KillContainerd  Kind = "containerd killed"
	StopContainerd  Kind = "containerd stopped"
	KillRuntimeShim Kind = "runtime shim killed"
	StopRuntimeShim Kind = "runtime shim stopped"
	KillManager     Kind = "manager killed"
	StopManager     Kind = "manager stopped"
	KillAPIServer   Kind = "kube-apiserver killed"
	StopAPIServer   Kind = "kube-apiserver stopped"
	KillEtcd        Kind = "etcd killed"
	StopEtcd        Kind = "etcd stopped"
	RestoreEtcd     Kind = "etcd restored from a copy"
	DiskFull        Kind = "state disk: ENOSPC"
	DiskError       Kind = "state disk: EIO"
	DiskHangs       Kind = "state disk: no answer"
	EventsCut       Kind = "event stream cut"
	CallFails       Kind = "CRI calls fail"
	CallAnswerLost  Kind = "CRI calls made, answers lost"
	CallHangs       Kind = "CRI calls hang"
	CallAnsweredTwo Kind = "CRI calls made twice"
	ClockOffset     Kind = "shim's clock offset"
)

// Kinds are all of them.
var Kinds = []Kind{
	KillShim, StopShim, KillContainerd, StopContainerd, KillRuntimeShim, StopRuntimeShim, KillManager, StopManager,
	KillAPIServer, StopAPIServer, KillEtcd, StopEtcd, RestoreEtcd, DiskFull, DiskError, DiskHangs, EventsCut,
	CallFails, CallAnswerLost, CallHangs, CallAnsweredTwo, ClockOffset,
}

// least is how often every kind occurs when there are faults enough.
const least = 3

// planned is a fault that is to be made.
type planned struct {
	kind Kind
	// gap is the time before it, lasts how long it takes.
	gap, lasts time.Duration
	// point is a CRI call that is waited for, so that the fault meets a start or a
	// kill; "" is any moment.
	point string
	// beside reports that it begins while the one before lasts.
	beside bool
	// choice picks among what it may be made on.
	choice uint64
}

// points are the calls of starts and kills. "" stands for any moment, in which
// most faults meet a sync.
var points = []string{
	"", "", "", "RunPodSandbox", "CreateContainer", "StartContainer", "ExecSync", "StopContainer", "StopContainer",
	"StopPodSandbox", "RemovePodSandbox", "RemoveContainer",
}

// schedule plans n faults from a seed.
func schedule(seed uint64, n int) []planned {
	dice := rand.New(rand.NewPCG(seed, 1))
	kinds := make([]Kind, 0, n)
	for i := range n {
		// Each kind in turn first, so that all occur; chance decides on the rest.
		if i < least*len(Kinds) {
			kinds = append(kinds, Kinds[i%len(Kinds)])
		} else {
			kinds = append(kinds, Kinds[dice.IntN(len(Kinds))])
		}
	}
	if n < len(Kinds) {
		for i, k := range dice.Perm(len(Kinds))[:n] {
			kinds[i] = Kinds[k]
		}
	}
	dice.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
	restoreLater(kinds, dice)
	plan := make([]planned, 0, n)
	for _, kind := range kinds {
		plan = append(plan, planned{
			kind:   kind,
			gap:    time.Duration(200+dice.IntN(1600)) * time.Millisecond,
			lasts:  time.Duration(300+dice.IntN(3700)) * time.Millisecond,
			point:  points[dice.IntN(len(points))],
			beside: dice.IntN(3) == 0,
			choice: dice.Uint64(),
		})
	}
	return plan
}

// restoreLater moves restorations of etcd out of the first quarter, so that there
// are copies from minutes ago.
func restoreLater(kinds []Kind, dice *rand.Rand) {
	early := len(kinds) / 4
	for i := range early {
		for kinds[i] == RestoreEtcd {
			k := early + dice.IntN(len(kinds)-early)
			if kinds[k] != RestoreEtcd {
				kinds[i], kinds[k] = kinds[k], kinds[i]
			}
		}
	}
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/podspec"
)

// The kubelet's back-off of restarts. (kubelet kubelet.go:newCrashLoopBackOff)
const (
	DefaultBackoffBase   = 10 * time.Second
	DefaultBackoffMax    = 300 * time.Second
	DefaultBackoffExpire = 600 * time.Second
)

// BackoffPolicy is how long restarts are put off; the zero value is the kubelet's.
type BackoffPolicy struct {
	// Base is the first wait, doubled with every restart up to Max.
	Base, Max time.Duration
	// Expire is how long after the last restart an entry is forgotten.
	Expire time.Duration
}

// DefaultBackoffPolicy returns the kubelet's policy.
func DefaultBackoffPolicy() BackoffPolicy {
	return BackoffPolicy{Base: DefaultBackoffBase, Max: DefaultBackoffMax, Expire: DefaultBackoffExpire}
}

// orDefault returns the kubelet's policy for the zero value.
func (p BackoffPolicy) orDefault() BackoffPolicy {
	if p == (BackoffPolicy{}) {
		return DefaultBackoffPolicy()
	}
	return p
}

// NewBackoffPolicy returns the policy of a workload; nil is the kubelet's. A first
// wait above the maximum is the maximum. The time after which an entry is
// forgotten does not depend on them.
func NewBackoffPolicy(spec *v1alpha1.RestartBackoff) BackoffPolicy {
	p := DefaultBackoffPolicy()
	if spec == nil {
		return p
	}
	if spec.MaxSeconds != nil {
		p.Max = time.Duration(*spec.MaxSeconds) * time.Second
	}
	if spec.BaseSeconds != nil {
		p.Base = time.Duration(*spec.BaseSeconds) * time.Second
	}
	p.Base = min(p.Base, p.Max)
	return p
}

// AtLeast returns the policy with waits that are not shorter than the node's minimum.
func (p BackoffPolicy) AtLeast(minimum time.Duration) BackoffPolicy {
	p = p.orDefault()
	p.Base, p.Max = max(p.Base, minimum), max(p.Max, minimum)
	return p
}

// RaisedBackoff says what of a workload's own policy is below the node's minimum; "" if nothing is.
func RaisedBackoff(spec *v1alpha1.RestartBackoff, minimum time.Duration) string {
	if spec == nil || NewBackoffPolicy(spec).Base >= minimum {
		return ""
	}
	return fmt.Sprintf("spec.restartBackoff asks for a first wait of %s; the node's --min-restart-backoff is %s, which is used instead",
		NewBackoffPolicy(spec).Base, minimum)
}

// Backoff is the back-off of one container. A nil one has not been restarted.
type Backoff struct {
	// Current is the wait after the container's last exit.
	Current time.Duration `json:"current"`
	// LastUpdate is when the container was last restarted.
	LastUpdate time.Time `json:"lastUpdate"`
	// BootID is the boot that SinceBoot and Exited count from; empty if they mean
	// nothing.
	BootID string `json:"bootID,omitempty"`
	// SinceBoot is LastUpdate as the time since boot.
	SinceBoot time.Duration `json:"sinceBoot,omitempty"`
	// Exit is the instance whose end was seen last, and Exited when that was, as the
	// time since boot.
	Exit   string        `json:"exit,omitempty"`
	Exited time.Duration `json:"exited,omitempty"`
	// Forgiven is an instance that was ended on purpose, whose end does not count;
	// nothing else is in the entry then.
	Forgiven string `json:"forgiven,omitempty"`
}

// Wait is a restart that is put off.
type Wait struct {
	// Until is when the container may start.
	Until time.Time
	// Current is the whole wait, counted from the container's exit.
	Current time.Duration
	// Message is the message of the waiting state CrashLoopBackOff.
	Message string
	// EventMessage is the message of the Warning event BackOff.
	EventMessage string
}

// Check decides whether a container that is to be started has to wait. If wait
// is nil it may start, and next is the entry to keep: what was there when the
// container has no exited instance, else the next step. If wait is not nil, the
// entry stays as it is. entry is not changed.
//
// The first exited instance of the name counts, not the newest: one that was
// killed in this sync does not hold itself back.
// An exit that is still to come, by a clock that ran ahead, counts as one at
// the last restart: the wait ends, and there is one.
// (kubelet kuberuntime_manager.go:doBackOff, client-go flowcontrol.Backoff)
func (p BackoffPolicy) Check(pod *corev1.Pod, c *corev1.Container, entry *Backoff, observed *PodStatus,
	now time.Time) (next *Backoff, wait *Wait) {
	p = p.orDefault()
	exited := newestExited(observed, c.Name)
	if exited == nil {
		return entry, nil
	}
	exited = p.notAhead(exited, entry, now)
	if entry == nil || p.Expired(entry, exited.FinishedAt) {
		return &Backoff{Current: p.Base, LastUpdate: now}, nil
	}
	// The maximum may have been lowered since the entry was made.
	current := min(entry.Current, p.Max)
	if now.Sub(exited.FinishedAt) < current {
		return entry, newWait(pod, c, current, exited.FinishedAt)
	}
	return &Backoff{Current: min(2*current, p.Max), LastUpdate: now}, nil
}

// notAhead gives an exit that is still to come a time that has been. If not even
// the last restart has, the clock was set back, and nothing is left to wait for.
func (p BackoffPolicy) notAhead(exited *ContainerStatus, entry *Backoff, now time.Time) *ContainerStatus {
	if entry == nil || !exited.FinishedAt.After(now) {
		return exited
	}
	end := *exited
	switch {
	case p.Expired(entry, now):
		end.FinishedAt = now
	case entry.LastUpdate.After(now):
		end.FinishedAt = now.Add(-p.Max)
	default:
		end.FinishedAt = entry.LastUpdate
	}
	return &end
}

// Expired is whether an entry is too old to count at a time. Housekeeping drops
// expired entries, even while a wait runs.
func (p BackoffPolicy) Expired(entry *Backoff, at time.Time) bool {
	return at.Sub(entry.LastUpdate) > p.Expire
}

func newWait(pod *corev1.Pod, c *corev1.Container, current time.Duration, finishedAt time.Time) *Wait {
	podDesc := podspec.Format(pod)
	return &Wait{
		Until:        finishedAt.Add(current),
		Current:      current,
		Message:      fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", current, c.Name, podDesc),
		EventMessage: fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, podDesc),
	}
}

func newestExited(observed *PodStatus, name string) *ContainerStatus {
	for i := range observed.Containers {
		if s := &observed.Containers[i]; s.Name == name && s.State == ContainerExited {
			return s
		}
	}
	return nil
}

// BackoffKey identifies the back-off of a container. A new image or other
// resources begin a new one. (kubelet kuberuntime/helpers.go:GetBackoffKey)
func BackoffKey(pod *corev1.Pod, c *corev1.Container) string {
	key := []string{pod.Name, pod.Namespace, string(pod.UID), c.Name, c.Image, c.Resources.String()}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(strings.Join(key, "/")))
	return strconv.FormatUint(hash.Sum64(), 16)
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/managedworkload/managedworkload/api/v1alpha1"
)

// RequestTimes are when KillRequests began with containers, and when the instances after them
// started, by a clock that is not set. They are about one boot.
type RequestTimes map[string]Activity

// sinceBegin returns for how long a request has been under way with a container.
func (a *advance) sinceBegin(c *v1alpha1.RequestContainerState) time.Duration {
	if c.BeginTime == nil {
		c.BeginTime = new(metav1.NewTime(a.Now.Wall).Rfc3339Copy())
	}
	return a.since(c.Name, *c.BeginTime)
}

// sinceStart returns for how long the instance after a restart has run: no longer than the
// request is under way, whatever clock its start was taken from.
func (a *advance) sinceStart(c *v1alpha1.RequestContainerState, s *ContainerStatus) time.Duration {
	at := s.StartedAt.Truncate(time.Second)
	if at.Before(s.StartedAt) {
		at = at.Add(time.Second) // no checkpoint has a part of a second
	}
	return min(a.since(c.Name+"/"+s.ID, metav1.NewTime(at)), a.sinceBegin(c))
}

// since returns the time since something that began at a time by the wall clock, which counts
// only when it is looked at first.
func (a *advance) since(what string, began metav1.Time) time.Duration {
	key := a.request.ID + "/" + what
	var known *Activity
	if noted, ok := a.Times[key]; ok {
		known = &noted
	}
	known = known.Seen(&began, a.Now)
	if a.out.Times == nil {
		a.out.Times = RequestTimes{}
	}
	a.out.Times[key] = *known
	return known.Active(a.Now)
}

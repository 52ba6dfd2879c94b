// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/plan"
)

// maxNamed is how many foreign pods are named.
const maxNamed = 10

// ForeignPods names the pods that are not the shim's own, and the flag that accepts
// them; "" if there are none.
func ForeignPods(pods []Pod) string {
	var names []string
	count := 0
	for _, p := range pods {
		if p.Ours {
			continue
		}
		if count++; count > maxNamed {
			continue
		}
		name := p.Namespace + "/" + p.Name
		if p.Instance != "" {
			name += " of node " + p.Instance
		}
		names = append(names, name)
	}
	if count == 0 {
		return ""
	}
	if count > maxNamed {
		names = append(names, "...")
	}
	return fmt.Sprintf("the container runtime has %d pods that this shim does not manage: %s; "+
		"nothing is started beside them; --allow-foreign-pods accepts them", count, strings.Join(names, ", "))
}

// instanceOf is a container of a pod.
type instanceOf struct {
	pod  *Pod
	name string
}

// count counts a container that does not run, and notes a foreign one that may.
func (c *Client) count(p *Pod, ctr *runtimeapi.Container, dead map[instanceOf]int) {
	switch {
	case !p.Ours:
	case c.ours(ctr.GetLabels()):
		if ctr.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			key := instanceOf{p, containerName(ctr.GetLabels(), ctr.GetMetadata())}
			dead[key]++
			p.Dead = max(p.Dead, dead[key])
		}
	case ctr.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED:
		p.Foreign = append(p.Foreign, plan.ForeignContainer{
			ID: ctr.GetId(), Name: containerName(ctr.GetLabels(), ctr.GetMetadata()), SandboxID: ctr.GetPodSandboxId(),
		})
	}
}

// keepForeign remembers the foreign containers for PodStatus, which lists only ours.
func (c *Client) keepForeign(pods []Pod) {
	foreign := map[types.UID][]plan.ForeignContainer{}
	for _, p := range pods {
		if len(p.Foreign) > 0 {
			foreign[p.UID] = p.Foreign
		}
	}
	c.foreign.Store(&foreign)
}

// foreignIn returns the foreign containers that the last list of all pods had in a
// sandbox. A sandbox that is not ready has ended with all in it.
func (c *Client) foreignIn(uid types.UID, s plan.SandboxStatus) (found []plan.ForeignContainer) {
	foreign := c.foreign.Load()
	if foreign == nil || s.State != plan.SandboxReady {
		return nil
	}
	for _, f := range (*foreign)[uid] {
		if f.SandboxID == s.ID {
			found = append(found, f)
		}
	}
	return found
}

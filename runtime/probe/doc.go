// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe runs the probes of containers: one worker for each container and
// kind of probe, which sleeps while there is nothing to probe. It decides whether
// a probe has failed or succeeded; what follows is the plan's. It touches the
// containers by the requests of the template only. (kubelet prober)
package probe

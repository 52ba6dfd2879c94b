// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodeadmission decides which pods a node does not take, before anything of them is
// started, as the kubelet's admission handlers do: for their sysctls, their host ports, their
// AppArmor profiles, and what the container runtime lacks for them; and for a host name that the
// kernel cannot take. It touches nothing: it
// reads the node's kernel and asks the runtime and the pods it is given.
package nodeadmission

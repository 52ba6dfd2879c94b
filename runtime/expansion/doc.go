// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expansion replaces $(NAME) references as the kubelet does in a
// container's environment, command and paths. It is pure.
package expansion

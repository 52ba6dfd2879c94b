// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// HookCutOff returns whether the preStop hook of a kill was cut off when the shim, or the node, was away,
// so that nothing counted how long it ran.
func (k *KillRecord) HookCutOff() bool {
	return k.PreStop != nil && k.PreStop.Outcome == PreStopTimedOut && k.PreStop.Seconds == 0
}

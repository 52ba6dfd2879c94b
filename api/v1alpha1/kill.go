// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// HookCutOff returns whether the preStop hook of a kill was cut off when the shim, or the node, was away,
// so that nothing counted how long it ran.
func (k *KillRecord) HookCutOff() bool {
	if k.PreStop == nil || k.PreStop.Seconds != 0 {
		return false
	}
	switch k.PreStop.Outcome {
	case PreStopTimedOut:
		return true
	case PreStopFailed: // not one that failed at once, after which the stop signal followed
		return k.Phase == KillPhaseDone && k.Outcome == "" && k.StopTime == nil
	case PreStopSucceeded, PreStopSkipped:
	}
	return false
}

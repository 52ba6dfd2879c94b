// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/managedworkload/managedworkload/hack/mutants/mutant"
)

// mistake is a mutant of one package: in is what the package declares. None lets a removal
// or an unmount leave what the tests made for it: they run as root.
type mistake struct{ name, in, old, new string }

// mutants are all deliberate mistakes, package by package.
func mutants() []mutant.Mutant {
	return slices.Concat(
		in("cli/forecast", forecastMistakes),
		in("controllers/handshake", handshakeMistakes),
		in("controllers/killrequest", killRequestMistakes),
		in("controllers/mirror", mirrorMistakes),
		in("controllers/objects", objectHubMistakes),
		in("controllers/subresources", subresourceMistakes),
		in("controllers/admission", verdictMistakes),
		in("controllers/fleet", turnMistakes),
		in("controllers/workload", rollOutTurnMistakes),
		in("controllers/fleet", revisionEditedMistakes),
		in("internal/revision", revisionMistakes),
		in("controllers/reservation", reservationMistakes),
		in("controllers/quota", quotaMistakes),
		in("controllers/rollout", rolloutMistakes),
		in("runtime/cri", criMistakes),
		in("runtime/hostfs", hostfsMistakes),
		in("runtime/diskusage", diskUsageMistakes),
		in("runtime/logs", logMistakes),
		in("runtime/images", imageMistakes),
		in("runtime/plan", askedMistakes),
		in("runtime/plan", deadlineMistakes),
		in("runtime/plan", evictMistakes),
		in("runtime/plan", planPressureMistakes),
		in("runtime/plan", sandboxMistakes),
		in("runtime/plan", waitMistakes),
		in("runtime/plan", togetherMistakes),
		in("runtime/executor", pausedMistakes),
		in("runtime/executor", killMistakes),
		in("runtime/objects", nodeObjectMistakes),
		in("runtime/nodeadmission", nodeAdmissionMistakes),
		in("runtime/podcgroup", podcgroupMistakes),
		in("runtime/podcgroup", freezerMistakes),
		in("runtime/poddir", poddirMistakes),
		in("runtime/podworker", podworkerMistakes),
		in("runtime/podworker", diskLimitMistakes),
		in("runtime/podworker", exitMistakes),
		in("runtime/pressure", pressureMistakes),
		in("runtime/podworker", requestWorkerMistakes),
		in("runtime/podworker", togetherWorkerMistakes),
		in("runtime/probe", probeMistakes),
		in("runtime/userns", usernsMistakes),
		in("runtime/signal", signalMistakes),
		in("api/placement", drainMistakes),
		in("api/template", templateMistakes),
		in("runtime/plan", shutdownPlanMistakes),
		in("runtime/shutdown", shutdownMistakes),
		in("controllers/workload", shutdownReplacedMistakes),
		in("internal/informers", informerMistakes),
		in("runtime/statefile", statefileMistakes),
		in("runtime/static", staticMistakes),
		in("runtime/manifest", manifestMistakes),
		in("runtime/status", statusMistakes),
		in("runtime/shim", shimMistakes),
		in("runtime/volume", volumeMistakes),
		in("runtime/atomicfiles", atomicfilesMistakes),
		in("runtime/projection", projectionMistakes),
	)
}

func in(pkg string, list []mistake) []mutant.Mutant {
	var mutants []mutant.Mutant
	for _, m := range list {
		mutants = append(mutants, mutant.Mutant{Name: m.name, Package: pkg, In: m.in, Old: m.old, New: m.new})
	}
	return mutants
}

// callers are packages whose tests may find the mistakes of a package that its own do not: pure
// functions whose uses make a rule.
var callers = map[string][]string{"runtime/plan": {"runtime/pressure"}}

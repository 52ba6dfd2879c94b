// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Condition types of a ManagedWorkload.
const (
	// ConditionReady is True when every reachable matching node that the roll-out may
	// change runs the current template, and all are ready. Also a condition of a NodeWorkload, with a Pod's
	// meaning.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the nodes are on their way to the
	// current spec (kstatus).
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when no progress is possible without a change by a
	// person (kstatus).
	ConditionStalled = "Stalled"
	// ConditionAccepted is False when the template is refused; the message names
	// all offending paths.
	ConditionAccepted = "Accepted"
	// ConditionObjectsAvailable is False when nodes do not get a ConfigMap or Secret that
	// the template refers to; the message names it and, where the namespace lets the manager
	// not read it, the command that does. It is absent where the template refers to none.
	ConditionObjectsAvailable = "ObjectsAvailable"
)

// Condition types of a NodeWorkload, beside Ready.
const (
	// ConditionPodReadyToStartContainers is True when the sandbox and its network
	// are there.
	ConditionPodReadyToStartContainers = "PodReadyToStartContainers"
	// ConditionInitialized is True when all init containers have succeeded.
	ConditionInitialized = "Initialized"
	// ConditionContainersReady is True when all containers are ready.
	ConditionContainersReady = "ContainersReady"
	// ConditionShimResponding is written by the manager: whether the node's shim
	// renews its lease.
	ConditionShimResponding = "ShimResponding"
	// ConditionReserved is written by the manager: whether what the template requests of the
	// node's CPU and memory is reserved there, so that the scheduler and the kubelet count it
	// with what Pods request. It is absent where nothing reserves for NodeWorkloads.
	ConditionReserved = "Reserved"
	// ConditionTemplateAccepted is False when the shim refuses the template.
	ConditionTemplateAccepted = "TemplateAccepted"
	// ConditionKillFailing is True while the runtime does not carry a kill out; it
	// is tried again.
	ConditionKillFailing = "KillFailing"
	// ConditionCheckpointFailing is True while the shim cannot write the workload's
	// checkpoint; it is absent otherwise. Kills continue without it.
	ConditionCheckpointFailing = "CheckpointFailing"
	// ConditionStatusTruncated is True while the API server does not take the whole
	// status; the message says what is missing. It is absent otherwise.
	ConditionStatusTruncated = "StatusTruncated"
	// ConditionForeignContainers is True while containers that the shim did not
	// create run in the workload's sandbox; it is absent otherwise.
	ConditionForeignContainers = "ForeignContainers"
	// ConditionVolumeSizePending is True while an emptyDir in memory keeps a size
	// above its limit because its content does not fit; it is absent otherwise.
	ConditionVolumeSizePending = "VolumeSizePending"
	// ConditionVolumesOutdated is True while a volume shows files that cannot be brought up to
	// date, because a ConfigMap, a Secret, a key of one or a token is missing; it is absent
	// otherwise. The other sources of a projected volume are kept up to date.
	ConditionVolumesOutdated = "VolumesOutdated"
	// ConditionPodCgroupMissing is True while containers run although the pod's
	// cgroup is gone; it is Unknown while that cannot be seen, and absent otherwise. The next
	// start makes the cgroup again.
	ConditionPodCgroupMissing = "PodCgroupMissing"
	// ConditionUpdateWaiting is True while a change of the template, or a restart that
	// was requested, waits for an image, a ConfigMap, a Secret or a token, and what runs is
	// kept; it is absent otherwise. Its reason is what a container says that waits for its
	// image (ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImageName),
	// ReasonPulling, ReasonObjectsMissing, ReasonNoUserNamespaces, or for a changed file of a static workload
	// ReasonFileOnTrial or ReasonFileRefused.
	ConditionUpdateWaiting = "UpdateWaiting"
	// ConditionRestartBackoffRaised is True while spec.restartBackoff is below the minimum of the
	// node's shim (--min-restart-backoff), which is used instead; it is absent otherwise.
	ConditionRestartBackoffRaised = "RestartBackoffRaised"
	// ConditionHeld is True while a KillRequest keeps containers stopped; it is absent
	// otherwise. A KillRequest has it, too.
	ConditionHeld = "Held"
	// ConditionRuntimeUsable is False when the shim may not use the container
	// runtime: it holds pods that are not the shim's own, or does not answer.
	ConditionRuntimeUsable = "RuntimeUsable"
)

// Conditions of a KillRequest beside ConditionHeld, as a Job has them. Each is absent until it is
// True for the first time; its reason is the phase.
const (
	// ConditionComplete is True when all is done.
	ConditionComplete = "Complete"
	// ConditionFailed is True when the request is over, and not all was done.
	ConditionFailed = "Failed"
)

// ManagersConditions are the types of the conditions of a NodeWorkload that are the manager's;
// all others are its shim's.
var ManagersConditions = []string{ConditionShimResponding, ConditionReserved}

// Reasons of conditions. A Pod's own reasons (ContainersNotReady and so on) are
// the kubelet's.
const (
	// ReasonAccepted: the template is accepted.
	ReasonAccepted = "Accepted"
	// ReasonRefusedFields: the template has fields that the shim cannot honour.
	ReasonRefusedFields = "RefusedFields"
	// ReasonAboveNodeBounds: the template declares more than the node's shim allows.
	ReasonAboveNodeBounds = "AboveNodeBounds"
	// ReasonBelowNodeMinimum: the workload asks for less than the least that the node's shim allows.
	ReasonBelowNodeMinimum = "BelowNodeMinimum"
	// ReasonInvalidTemplate: the API server would not admit the template as a
	// Pod.
	ReasonInvalidTemplate = "InvalidTemplate"
	// ReasonQuotaDoesNotCount: a ResourceQuota limits Pods of the namespace and does not
	// count NodeWorkloads.
	ReasonQuotaDoesNotCount = "QuotaDoesNotCount"
	// ReasonObjectsAvailable: nodes get all that the template refers to.
	ReasonObjectsAvailable = "ObjectsAvailable"
	// ReasonNoRight: the namespace does not let the manager read an object that the template
	// refers to, or make a token that it asks for.
	ReasonNoRight = "NoRight"
	// ReasonObjectNotFound: an object does not exist that the template cannot do without.
	ReasonObjectNotFound = "ObjectNotFound"
	// ReasonKeyNotFound: an object lacks a key that the template cannot do without.
	ReasonKeyNotFound = "KeyNotFound"
	// ReasonObjectsNotServed: nothing gives nodes objects, because the component objects is
	// not installed.
	ReasonObjectsNotServed = "ObjectsNotServed"
	// ReasonObjectsTooLarge: the manager has no place for all objects of the namespace.
	ReasonObjectsTooLarge = "ObjectsTooLarge"
	// ReasonNoMatchingNodes: no node matches the template's placement.
	ReasonNoMatchingNodes = "NoMatchingNodes"
	// ReasonNodesDrained: every node that matches the template's placement is drained.
	ReasonNodesDrained = "NodesDrained"
	// ReasonCompleted: the containers have succeeded on every node.
	ReasonCompleted = "Completed"
	// ReasonAllNodesReady: every reachable node is ready with the current
	// template.
	ReasonAllNodesReady = "AllNodesReady"
	// ReasonNodesNotReady: a node is not ready yet.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonUpdating: a node does not run the current template yet.
	ReasonUpdating = "Updating"
	// ReasonFailed: the containers failed for good on a node.
	ReasonFailed = "Failed"
	// ReasonNotStalled: nothing needs a person.
	ReasonNotStalled = "NotStalled"
	// ReasonTerminating: the object is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonShimNotFound: the node never had a shim.
	ReasonShimNotFound = "ShimNotFound"
	// ReasonLeaseExpired: the node's shim has stopped renewing its lease.
	ReasonLeaseExpired = "LeaseExpired"
	// ReasonLeaseRenewed: the node's shim renews its lease.
	ReasonLeaseRenewed = "LeaseRenewed"
	// ReasonCheckpointNotWritten: the disk has no room, fails or does not answer.
	ReasonCheckpointNotWritten = "CheckpointNotWritten"
	// ReasonStatusTooLarge: the status is larger than the API server takes.
	ReasonStatusTooLarge = "StatusTooLarge"
	// ReasonForeignPods: the runtime holds pods that are not the shim's own.
	ReasonForeignPods = "ForeignPods"
	// ReasonPolicyNotEnforced: the API server does not keep NodeWorkloads the manager's.
	ReasonPolicyNotEnforced = "PolicyNotEnforced"
	// ReasonForeignContainers: the workload's sandbox holds containers that are not
	// the shim's own.
	ReasonForeignContainers = "ForeignContainers"
	// ReasonContentExceedsLimit: the content of a volume does not fit into its limit.
	ReasonContentExceedsLimit = "ContentExceedsLimit"
	// ReasonFilesNotUpdated: files of a volume are kept as they were.
	ReasonFilesNotUpdated = "FilesNotUpdated"
	// ReasonCgroupMissing: the pod's cgroup is gone.
	ReasonCgroupMissing = "CgroupMissing"
	// ReasonCgroupNotVisible: a cgroup file system of the node cannot be read.
	ReasonCgroupNotVisible = "CgroupNotVisible"
	// ReasonContainersOutsideCgroup: the pod's cgroup is gone, or was made again, and
	// its containers run in another one; they are killed.
	ReasonContainersOutsideCgroup = "ContainersOutsideCgroup"
	// ReasonEvicted is the reason of a NodeWorkload's status that was ended because it used
	// more of the node's disk than its limits say, or because its node was short of something.
	// The manager replaces it after a back-off. It is the reason, too, why nothing new of one is
	// started while its node is short.
	ReasonEvicted = "Evicted"
	// ReasonTerminated is the reason of a NodeWorkload's status that a shutdown of its node
	// ended. The manager replaces it when the node is back.
	ReasonTerminated = "Terminated"
	// ReasonDiskUsageUnknown: a template with a lower limit counts as running once what is
	// used was measured under it, and that has failed.
	ReasonDiskUsageUnknown = "DiskUsageUnknown"
	// ReasonPulling: the first pull of an image is under way.
	ReasonPulling = "Pulling"
	// ReasonObjectsMissing: what the template refers to does not exist, may not be read, or
	// has not been received.
	ReasonObjectsMissing = "ObjectsMissing"
	// ReasonNoUserNamespaces: the template says hostUsers: false, and the container runtime
	// does not support user namespaces.
	ReasonNoUserNamespaces = "NoUserNamespaces"
	// ReasonFileOnTrial: the file of a static workload has changed, and the node gets what the start of the change needs.
	ReasonFileOnTrial = "FileOnTrial"
	// ReasonFileRefused: the file of a static workload has changed, and what it says now is not accepted, or cannot run on
	// the node; the message says why.
	ReasonFileRefused = "FileRefused"
	// ReasonStopRequested: a KillRequest stops containers, and keeps them stopped. It is also
	// why such a container waits.
	ReasonStopRequested = "StopRequested"
	// ReasonKillRequested: a KillRequest is about to kill a container, and the workload counts
	// as not ready before.
	ReasonKillRequested = "KillRequested"
	// ReasonRuntimeNotReady: the runtime does not answer.
	ReasonRuntimeNotReady = "RuntimeNotReady"
	// ReasonRuntimeReady: the runtime answers and is the shim's own.
	ReasonRuntimeReady = "RuntimeReady"
	// ReasonReserved: the node's Pod that reserves has what the template requests.
	ReasonReserved = "Reserved"
	// ReasonNothingRequested: the template requests neither CPU nor memory.
	ReasonNothingRequested = "NothingRequested"
	// ReasonDeferred: the kubelet has no room on the node now, and reserves when there is.
	ReasonDeferred = "Deferred"
	// ReasonInfeasible: the kubelet cannot change the requests of the Pod that reserves.
	ReasonInfeasible = "Infeasible"
	// ReasonResizeBackOff: the kubelet did not reserve it for long, so that it is asked for only now
	// and then.
	ReasonResizeBackOff = "ResizeBackOff"
	// ReasonExceedsNode: the node has less than what its NodeWorkloads request in all.
	ReasonExceedsNode = "ExceedsNode"
	// ReasonResizeRefused: the API server refused to change the requests of the Pod that reserves.
	ReasonResizeRefused = "ResizeRefused"
	// ReasonResizePending: the kubelet has not answered yet.
	ReasonResizePending = "ResizePending"
	// ReasonNoReservingPod: the node has no Pod that reserves, and others have.
	ReasonNoReservingPod = "NoReservingPod"
)

// Names that the manager and the shim share.
const (
	// Finalizer keeps a ManagedWorkload until its NodeWorkloads are gone, and a
	// NodeWorkload until its containers are.
	Finalizer = "managedworkload.dev/containers"
	// LabelWorkload on a NodeWorkload is the name of its ManagedWorkload (hashed
	// when longer than a label value may be).
	LabelWorkload = "managedworkload.dev/workload"
	// LabelNode on a NodeWorkload is the name of its node (hashed likewise).
	LabelNode = "managedworkload.dev/node"
	// LabelRevision on a NodeWorkload and on a ManagedWorkloadRevision identifies the
	// user's template, as on the Pods of a DaemonSet.
	LabelRevision = "controller-revision-hash"
	// AnnotationDeletionGracePeriodSeconds on a ManagedWorkload is the grace
	// period of its deletion, in seconds.
	AnnotationDeletionGracePeriodSeconds = "managedworkload.dev/deletion-grace-period-seconds"
	// AnnotationRequestedBy on a NodeWorkload names to its shim who asked for the
	// deletion.
	AnnotationRequestedBy = "managedworkload.dev/requested-by"
	// AnnotationChangedBy on a NodeWorkload names to its shim who changed the definition
	// last: the field manager of that change of the ManagedWorkload.
	AnnotationChangedBy = "managedworkload.dev/changed-by"
	// AnnotationRuntimeHandler in the template of a NodeWorkload is the handler of its
	// runtime class: the manager reads RuntimeClasses, and a shim does not.
	AnnotationRuntimeHandler = "managedworkload.dev/runtime-handler"
	// AnnotationRestartedAt in a template restarts the containers when it
	// changes, as kubectl rollout restart does.
	AnnotationRestartedAt = "kubectl.kubernetes.io/restartedAt"
	// AnnotationOrphansHeld on a shim's Lease says why orphans are kept and how to
	// confirm that they may be killed.
	AnnotationOrphansHeld = "managedworkload.dev/orphans-held"
	// AnnotationNodePressure on a shim's Lease names the conditions of a node that is short of
	// memory, disk or process IDs, such as MemoryPressure,DiskPressure: workloads are ended for it,
	// and new ones are not started.
	AnnotationNodePressure = "managedworkload.dev/node-pressure"
	// LabelStatic is "true" on the mirror of a workload that a shim runs from a file: an object
	// that shows it, and that no shim runs. AnnotationStaticUID on it is the UID of the instance.
	LabelStatic         = "managedworkload.dev/static"
	AnnotationStaticUID = "managedworkload.dev/static-uid"
	// StaticUIDPrefix begins the UIDs of workloads from files.
	StaticUIDPrefix = "static-"
	// AnnotationStaticMirrors on a shim's Lease asks the manager for mirrors.
	AnnotationStaticMirrors = "managedworkload.dev/static-mirrors"
	// LabelAllowMirrors is "true" on namespaces in which the manager makes mirrors.
	LabelAllowMirrors = "managedworkload.dev/allow-static-mirrors"
	// AnnotationShutdownUntil on a shim's Lease: its node shuts down. A Lease that is renewed
	// after that time, by the node's clock, is that of a node that is back.
	AnnotationShutdownUntil = "managedworkload.dev/shutdown-until"
	// AnnotationConfirmOrphans on a shim's Lease, with the token that
	// AnnotationOrphansHeld names as its value, confirms that orphans may be killed
	// although suspiciously many workloads are gone at once.
	AnnotationConfirmOrphans = "managedworkload.dev/confirm-orphans"
	// LeaseNamePrefix is before the node's name in the name of its shim's Lease,
	// in the namespace of the manager.
	LeaseNamePrefix = "managedworkload-shim-"
	// DefaultNamespace is the namespace of the manager and of the shims' leases.
	DefaultNamespace = "managedworkload-system"
	// TaintDrain, with any effect, ends the NodeWorkloads of a node whose ManagedWorkload has no
	// toleration that names it. With the value TaintDrainHold it only keeps new ones away.
	TaintDrain     = "managedworkload.dev/drain"
	TaintDrainHold = "hold"
	// TaintNoPods keeps Pods from a node that has a shim and no kubelet.
	TaintNoPods = "managedworkload.dev/no-kubelet"
)

// DeletionGrace reads the grace period of a ManagedWorkload's deletion, in seconds, from the value of its annotation;
// ok is false where that is no number of seconds from 0 on.
func DeletionGrace(value string) (seconds int64, ok bool) {
	seconds, err := strconv.ParseInt(value, 10, 64)
	return seconds, err == nil && seconds >= 0
}

// IsStatic reports whether a UID is that of a workload from a file.
func IsStatic(uid types.UID) bool { return strings.HasPrefix(string(uid), StaticUIDPrefix) }

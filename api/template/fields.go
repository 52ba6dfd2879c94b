// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package template

// Class says how a template field is treated.
type Class string

// The three classes of template fields.
const (
	// Honoured: the field does what it does for a Pod.
	Honoured Class = "honoured"
	// WithoutMeaning: the field is accepted, has no effect here, and is listed in
	// a warning when it is set.
	WithoutMeaning Class = "ignored"
	// Refused: a template that sets the field is refused by its path.
	Refused Class = "refused"
)

// Field is an entry of the table of template fields.
type Field struct {
	// Path of the field in a Pod template. "[]" stands for every element of a
	// list, "containers[]" for containers and init containers, "<probe>" for
	// livenessProbe, readinessProbe and startupProbe, "<hook>" for postStart and
	// preStop. A path that ends in ".*" is the field itself and all below it.
	Path string
	// Class of the field.
	Class Class
	// Note is the reason or the limit, for people.
	Note string
	// Instead is what to do instead of setting a refused field.
	Instead string
}

// Refusal is why the field is refused, and what to do instead.
func (f Field) Refusal() string {
	if f.Note == "" || f.Instead == "" {
		return f.Note + f.Instead
	}
	return f.Note + "; " + f.Instead
}

// Fields is the one table of template fields. A field that is not in it is
// refused.
func Fields() []Field {
	return append([]Field(nil), fields...)
}

const (
	fromObjects   = "the shim reads no Secrets and ConfigMaps"
	objectFiles   = "files follow the object within a minute, but for mounts with subPath; all files of a workload together may take 32Mi of memory"
	createdOnce   = "read when the container is created; a later change needs a restart"
	noScheduler   = "no scheduler is involved: the template's placement fields decide"
	noNewVolumes  = "volumes of this kind are not supported"
	noTemplateUse = "as in any Pod template"
	noDRA         = "dynamic resource allocation is not supported"
	noWindows     = "Linux only"
)

// What to do instead of setting a refused field.
const (
	removeIt       = "remove it"
	mountOnNode    = "mount it on the node, by systemd or fstab, and use a hostPath volume"
	keepOnNode     = "keep the data in a hostPath directory, or run what needs the volume as a Pod"
	passTheDevice  = "pass the device by a hostPath volume to a privileged container, or run what needs it as a Pod"
	readinessProbe = "remove it; a readinessProbe decides whether the workload is ready"
)

var fields = []Field{
	{"metadata.labels", Honoured, "", ""},
	{"metadata.annotations", Honoured, "kubectl.kubernetes.io/restartedAt restarts the containers when it changes", ""},
	{"metadata.name", WithoutMeaning, noTemplateUse, ""},
	{"metadata.generateName", WithoutMeaning, noTemplateUse, ""},
	{"metadata.namespace", WithoutMeaning, noTemplateUse, ""},
	{"metadata.selfLink", WithoutMeaning, noTemplateUse, ""},
	{"metadata.uid", WithoutMeaning, noTemplateUse, ""},
	{"metadata.resourceVersion", WithoutMeaning, noTemplateUse, ""},
	{"metadata.generation", WithoutMeaning, noTemplateUse, ""},
	{"metadata.creationTimestamp", WithoutMeaning, noTemplateUse, ""},
	{"metadata.deletionTimestamp", WithoutMeaning, noTemplateUse, ""},
	{"metadata.deletionGracePeriodSeconds", WithoutMeaning, noTemplateUse, ""},
	{"metadata.ownerReferences[].*", WithoutMeaning, noTemplateUse, ""},
	{"metadata.finalizers", WithoutMeaning, noTemplateUse, ""},
	{"metadata.managedFields[].*", WithoutMeaning, noTemplateUse, ""},

	{"spec.restartPolicy", Honoured, "", ""},
	{"spec.terminationGracePeriodSeconds", Honoured, "", ""},
	{"spec.activeDeadlineSeconds", Honoured, "counted from status.startTime of the NodeWorkload, which then fails for good; it may be changed both ways", ""},
	{"spec.dnsPolicy", Honoured, "ClusterFirst needs the shim's --cluster-dns; without it, it is Default", ""},
	{"spec.dnsConfig.nameservers", Honoured, "", ""},
	{"spec.dnsConfig.searches", Honoured, "", ""},
	{"spec.dnsConfig.options[].name", Honoured, "", ""},
	{"spec.dnsConfig.options[].value", Honoured, "", ""},
	{"spec.hostNetwork", Honoured, "", ""},
	{"spec.hostPID", Honoured, "", ""},
	{"spec.hostIPC", Honoured, "", ""},
	{"spec.shareProcessNamespace", Honoured, "", ""},
	{"spec.hostUsers", Honoured, "false needs a kernel and a runtime with user namespaces and id-mapped mounts; a node without them starts nothing of it", ""},
	{"spec.hostname", Honoured, "", ""},
	{"spec.subdomain", Honoured, "", ""},
	{"spec.setHostnameAsFQDN", Honoured, "a node on which the full name has more than 64 characters starts nothing of it", ""},
	{"spec.hostnameOverride", Refused, "the host name is that of hostname and subdomain", "use hostname"},
	{"spec.hostAliases[].ip", Honoured, "", ""},
	{"spec.hostAliases[].hostnames", Honoured, "", ""},
	{"spec.securityContext.runAsUser", Honoured, "", ""},
	{"spec.securityContext.runAsGroup", Honoured, "", ""},
	{"spec.securityContext.runAsNonRoot", Honoured, "", ""},
	{"spec.securityContext.supplementalGroups", Honoured, "", ""},
	{"spec.securityContext.supplementalGroupsPolicy", Honoured, "", ""},
	{"spec.securityContext.fsGroup", Honoured, "for all volumes but hostPath, as in the kubelet", ""},
	{"spec.securityContext.fsGroupChangePolicy", WithoutMeaning, "it has no effect on volumes of these kinds, as in the kubelet", ""},
	{"spec.securityContext.sysctls[].name", Honoured, "the kubelet's safe ones, and those that the node's shim allows (`--allowed-unsafe-sysctls`)", ""},
	{"spec.securityContext.sysctls[].value", Honoured, "", ""},
	{"spec.securityContext.seccompProfile.type", Honoured, "", ""},
	{"spec.securityContext.seccompProfile.localhostProfile", Honoured, "below the shim's --seccomp-root", ""},
	{"spec.securityContext.appArmorProfile.type", Honoured, "", ""},
	{"spec.securityContext.appArmorProfile.localhostProfile", Honoured, "", ""},
	{"spec.securityContext.seLinuxOptions.user", Honoured, "", ""},
	{"spec.securityContext.seLinuxOptions.role", Honoured, "", ""},
	{"spec.securityContext.seLinuxOptions.type", Honoured, "", ""},
	{"spec.securityContext.seLinuxOptions.level", Honoured, "", ""},
	{"spec.securityContext.seLinuxChangePolicy", WithoutMeaning, "volumes are not relabelled", ""},
	{"spec.securityContext.windowsOptions.*", Refused, noWindows, removeIt},

	{"spec.nodeName", Honoured, "placement", ""},
	{"spec.nodeSelector", Honoured, "placement", ""},
	{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.*", Honoured, "placement", ""},
	{"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[].*", WithoutMeaning, noScheduler, ""},
	{"spec.affinity.podAffinity.*", WithoutMeaning, noScheduler, ""},
	{"spec.affinity.podAntiAffinity.*", WithoutMeaning, noScheduler, ""},
	{"spec.tolerations[].key", Honoured, "placement", ""},
	{"spec.tolerations[].operator", Honoured, "placement", ""},
	{"spec.tolerations[].value", Honoured, "placement", ""},
	{"spec.tolerations[].effect", Honoured, "placement", ""},
	{"spec.tolerations[].tolerationSeconds", WithoutMeaning, "an untolerated NoExecute taint ends the workload at once", ""},
	{"spec.topologySpreadConstraints[].*", WithoutMeaning, noScheduler, ""},
	{"spec.schedulerName", WithoutMeaning, noScheduler, ""},
	{"spec.schedulingGates[].*", Refused, noScheduler, "remove it; spec.paused of the ManagedWorkload holds a roll-out"},
	{"spec.schedulingGroup.*", Refused, noScheduler, removeIt},
	{"spec.priorityClassName", Honoured, "orders evictions and the end at a shutdown of the node; system-node-critical and system-cluster-critical are not evicted, and containers of the first start with the OOM score -997; nothing is preempted", ""},
	{"spec.priority", Honoured, "must be the number of priorityClassName, which the node gets without it too", ""},
	{"spec.preemptionPolicy", WithoutMeaning, "nothing is preempted", ""},

	{"spec.serviceAccountName", Honoured, "as in a Pod; default if not set", ""},
	{"spec.serviceAccount", Honoured, "another name of serviceAccountName", ""},
	{"spec.automountServiceAccountToken", Honoured, "as in a Pod: without a word the ServiceAccount decides; needs the component objects and the namespace's grant (docs/objects.md)", ""},
	{"spec.imagePullSecrets[].name", Honoured, "with those of the ServiceAccount; needs the component objects", ""},
	{"spec.enableServiceLinks", WithoutMeaning, "no variables of Services are set but those of the API server (KUBERNETES_SERVICE_HOST and the like)", ""},
	{"spec.readinessGates[].*", Refused, "nothing sets such conditions on a NodeWorkload", readinessProbe},
	{"spec.runtimeClassName", Honoured, "with its handler, overhead, node selector and tolerations, as they are when the template is admitted", ""},
	{"spec.overhead", Honoured, "that of the runtime class, which admission fills in", ""},
	{"spec.os.name", Honoured, "linux only", ""},
	{"spec.resourceClaims[].*", Refused, noDRA, passTheDevice},
	{"spec.resources.limits", Honoured, "cpu and memory of the whole pod; a change replaces the sandbox, and so restarts all containers", ""},
	{"spec.resources.requests", Honoured, "cpu and memory of the whole pod; a change replaces the sandbox, and so restarts all containers", ""},
	{"spec.resources.claims[].*", Refused, noDRA, passTheDevice},
	{"spec.ephemeralContainers[].*", Refused, "a template has none, as in a Pod template", "remove it; for a second process use a sidecar: an init container with restartPolicy Always"},

	{"spec.volumes[].name", Honoured, "", ""},
	{"spec.volumes[].hostPath.path", Honoured, "", ""},
	{"spec.volumes[].hostPath.type", Honoured, "", ""},
	{"spec.volumes[].emptyDir.medium", Honoured, "disk, Memory and huge pages", ""},
	{"spec.volumes[].emptyDir.sizeLimit", Honoured, "usage is measured every 10 s, and a workload that is above it is evicted; a volume in memory cannot grow above it", ""},
	{"spec.volumes[].gcePersistentDisk.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].awsElasticBlockStore.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].gitRepo.*", Refused, noNewVolumes, "clone it in an init container into an emptyDir volume"},
	{"spec.volumes[].secret.secretName", Honoured, objectFiles, ""},
	{"spec.volumes[].secret.items[].key", Honoured, "", ""},
	{"spec.volumes[].secret.items[].path", Honoured, "", ""},
	{"spec.volumes[].secret.items[].mode", Honoured, "", ""},
	{"spec.volumes[].secret.defaultMode", Honoured, "", ""},
	{"spec.volumes[].secret.optional", Honoured, "", ""},
	{"spec.volumes[].nfs.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].iscsi.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].glusterfs.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].persistentVolumeClaim.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].rbd.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].flexVolume.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].cinder.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].cephfs.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].flocker.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].downwardAPI.items[].path", Honoured, "", ""},
	{"spec.volumes[].downwardAPI.items[].fieldRef.apiVersion", Honoured, "", ""},
	{"spec.volumes[].downwardAPI.items[].fieldRef.fieldPath", Honoured, "files follow changed metadata", ""},
	{"spec.volumes[].downwardAPI.items[].resourceFieldRef.containerName", Honoured, "", ""},
	{"spec.volumes[].downwardAPI.items[].resourceFieldRef.resource", Honoured, "files follow changed resources; a limit that is not set is what the node has", ""},
	{"spec.volumes[].downwardAPI.items[].resourceFieldRef.divisor", Honoured, "", ""},
	{"spec.volumes[].downwardAPI.items[].mode", Honoured, "", ""},
	{"spec.volumes[].downwardAPI.defaultMode", Honoured, "", ""},
	{"spec.volumes[].fc.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].azureFile.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].configMap.name", Honoured, objectFiles, ""},
	{"spec.volumes[].configMap.items[].key", Honoured, "", ""},
	{"spec.volumes[].configMap.items[].path", Honoured, "", ""},
	{"spec.volumes[].configMap.items[].mode", Honoured, "", ""},
	{"spec.volumes[].configMap.defaultMode", Honoured, "", ""},
	{"spec.volumes[].configMap.optional", Honoured, "", ""},
	{"spec.volumes[].vsphereVolume.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].quobyte.*", Refused, noNewVolumes, mountOnNode},
	{"spec.volumes[].azureDisk.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].photonPersistentDisk.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].projected.defaultMode", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].secret.name", Honoured, objectFiles, ""},
	{"spec.volumes[].projected.sources[].secret.items[].key", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].secret.items[].path", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].secret.items[].mode", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].secret.optional", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].path", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].fieldRef.fieldPath", Honoured, "files follow changed metadata", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.containerName", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.resource", Honoured, "files follow changed resources; a limit that is not set is what the node has", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].resourceFieldRef.divisor", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].downwardAPI.items[].mode", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].configMap.name", Honoured, objectFiles, ""},
	{"spec.volumes[].projected.sources[].configMap.items[].key", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].configMap.items[].path", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].configMap.items[].mode", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].configMap.optional", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].serviceAccountToken.*", Honoured, "", ""},
	{"spec.volumes[].projected.sources[].clusterTrustBundle.*", Refused, "the shim reads no ClusterTrustBundles", "keep the certificates in a ConfigMap"},
	{"spec.volumes[].projected.sources[].podCertificate.*", Refused, "the shim asks for no certificates", "keep the certificate in a Secret"},
	{"spec.volumes[].portworxVolume.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].scaleIO.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].storageos.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].csi.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].ephemeral.*", Refused, noNewVolumes, keepOnNode},
	{"spec.volumes[].image.reference", Honoured, "pulled before a container that mounts it is created; needs a runtime that mounts images, such as containerd 2.1 or later: with another one the container waits with CreateContainerError", ""},
	{"spec.volumes[].image.pullPolicy", Honoured, "a change restarts nothing", ""},

	{"spec.containers[].name", Honoured, "", ""},
	{"spec.containers[].image", Honoured, "", ""},
	{"spec.containers[].command", Honoured, "", ""},
	{"spec.containers[].args", Honoured, "", ""},
	{"spec.containers[].workingDir", Honoured, "", ""},
	{"spec.containers[].ports[].name", Honoured, "", ""},
	{"spec.containers[].ports[].hostPort", Honoured, "through the CNI plugin portmap", ""},
	{"spec.containers[].ports[].containerPort", Honoured, "", ""},
	{"spec.containers[].ports[].protocol", Honoured, "", ""},
	{"spec.containers[].ports[].hostIP", Honoured, "", ""},
	{"spec.containers[].envFrom[].prefix", Honoured, "", ""},
	{"spec.containers[].envFrom[].configMapRef.name", Honoured, createdOnce, ""},
	{"spec.containers[].envFrom[].configMapRef.optional", Honoured, "", ""},
	{"spec.containers[].envFrom[].secretRef.name", Honoured, createdOnce, ""},
	{"spec.containers[].envFrom[].secretRef.optional", Honoured, "", ""},
	{"spec.containers[].env[].name", Honoured, "", ""},
	{"spec.containers[].env[].value", Honoured, "$(VAR) is expanded", ""},
	{"spec.containers[].env[].valueFrom.fieldRef.apiVersion", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.fieldRef.fieldPath", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.resourceFieldRef.containerName", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.resourceFieldRef.resource", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.resourceFieldRef.divisor", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.configMapKeyRef.name", Honoured, createdOnce, ""},
	{"spec.containers[].env[].valueFrom.configMapKeyRef.key", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.configMapKeyRef.optional", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.secretKeyRef.name", Honoured, createdOnce, ""},
	{"spec.containers[].env[].valueFrom.secretKeyRef.key", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.secretKeyRef.optional", Honoured, "", ""},
	{"spec.containers[].env[].valueFrom.fileKeyRef.*", Refused, "files as a source of variables are not supported", "use value, configMapKeyRef or secretKeyRef, or let the program read the file"},
	{"spec.containers[].resources.limits", Honoured, "cpu, memory and ephemeral-storage, changed without a restart, and huge pages (hugepages-2Mi and the like) where the node has them; other resources are refused. A workload above its ephemeral-storage is evicted", ""},
	{"spec.containers[].resources.requests", Honoured, "cpu, memory, huge pages, and ephemeral-storage, which is for a scheduler only; other resources are refused", ""},
	{"spec.containers[].resources.claims[].*", Refused, noDRA, passTheDevice},
	{"spec.containers[].resizePolicy[].resourceName", Honoured, "", ""},
	{"spec.containers[].resizePolicy[].restartPolicy", Honoured, "without a policy, changed resources restart nothing", ""},
	{"spec.containers[].restartPolicy", Honoured, "Always on an init container makes it a sidecar", ""},
	{"spec.containers[].restartPolicyRules[].action", Honoured, "Restart and RestartAllContainers", ""},
	{"spec.containers[].restartPolicyRules[].exitCodes.operator", Honoured, "", ""},
	{"spec.containers[].restartPolicyRules[].exitCodes.values", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].name", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].readOnly", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].recursiveReadOnly", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].mountPath", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].mountPropagation", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].subPath", Honoured, "", ""},
	{"spec.containers[].volumeMounts[].subPathExpr", Honoured, "", ""},
	{"spec.containers[].volumeDevices[].*", Refused, noNewVolumes, "use a hostPath volume of type BlockDevice"},
	{"spec.containers[].<probe>.exec.command", Honoured, "", ""},
	{"spec.containers[].<probe>.httpGet.path", Honoured, "", ""},
	{"spec.containers[].<probe>.httpGet.port", Honoured, "a number, or the name of one of the container's ports", ""},
	{"spec.containers[].<probe>.httpGet.host", Honoured, "", ""},
	{"spec.containers[].<probe>.httpGet.scheme", Honoured, "", ""},
	{"spec.containers[].<probe>.httpGet.httpHeaders[].name", Honoured, "", ""},
	{"spec.containers[].<probe>.httpGet.httpHeaders[].value", Honoured, "", ""},
	{"spec.containers[].<probe>.tcpSocket.port", Honoured, "a number, or the name of one of the container's ports", ""},
	{"spec.containers[].<probe>.tcpSocket.host", Honoured, "", ""},
	{"spec.containers[].<probe>.grpc.port", Honoured, "", ""},
	{"spec.containers[].<probe>.grpc.service", Honoured, "", ""},
	{"spec.containers[].<probe>.initialDelaySeconds", Honoured, "", ""},
	{"spec.containers[].<probe>.timeoutSeconds", Honoured, "", ""},
	{"spec.containers[].<probe>.periodSeconds", Honoured, "", ""},
	{"spec.containers[].<probe>.successThreshold", Honoured, "", ""},
	{"spec.containers[].<probe>.failureThreshold", Honoured, "", ""},
	{"spec.containers[].<probe>.terminationGracePeriodSeconds", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.exec.command", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.path", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.port", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.host", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.scheme", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.httpHeaders[].name", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.httpGet.httpHeaders[].value", Honoured, "", ""},
	{"spec.containers[].lifecycle.<hook>.tcpSocket.*", Refused, "it fails at run time in the kubelet", "use exec or httpGet"},
	{"spec.containers[].lifecycle.<hook>.sleep.seconds", Honoured, "", ""},
	{"spec.containers[].lifecycle.stopSignal", Honoured, "needs a runtime that keeps it, such as containerd 2.3", ""},
	{"spec.containers[].terminationMessagePath", Honoured, "", ""},
	{"spec.containers[].terminationMessagePolicy", Honoured, "", ""},
	{"spec.containers[].imagePullPolicy", Honoured, "", ""},
	{"spec.containers[].securityContext.capabilities.add", Honoured, "", ""},
	{"spec.containers[].securityContext.capabilities.drop", Honoured, "", ""},
	{"spec.containers[].securityContext.privileged", Honoured, "", ""},
	{"spec.containers[].securityContext.seLinuxOptions.user", Honoured, "", ""},
	{"spec.containers[].securityContext.seLinuxOptions.role", Honoured, "", ""},
	{"spec.containers[].securityContext.seLinuxOptions.type", Honoured, "", ""},
	{"spec.containers[].securityContext.seLinuxOptions.level", Honoured, "", ""},
	{"spec.containers[].securityContext.windowsOptions.*", Refused, noWindows, removeIt},
	{"spec.containers[].securityContext.runAsUser", Honoured, "", ""},
	{"spec.containers[].securityContext.runAsGroup", Honoured, "", ""},
	{"spec.containers[].securityContext.runAsNonRoot", Honoured, "", ""},
	{"spec.containers[].securityContext.readOnlyRootFilesystem", Honoured, "", ""},
	{"spec.containers[].securityContext.allowPrivilegeEscalation", Honoured, "", ""},
	{"spec.containers[].securityContext.procMount", Honoured, "", ""},
	{"spec.containers[].securityContext.seccompProfile.type", Honoured, "", ""},
	{"spec.containers[].securityContext.seccompProfile.localhostProfile", Honoured, "below the shim's --seccomp-root", ""},
	{"spec.containers[].securityContext.appArmorProfile.type", Honoured, "", ""},
	{"spec.containers[].securityContext.appArmorProfile.localhostProfile", Honoured, "", ""},
	{"spec.containers[].stdin", Honoured, "", ""},
	{"spec.containers[].stdinOnce", Honoured, "", ""},
	{"spec.containers[].tty", Honoured, "", ""},
}

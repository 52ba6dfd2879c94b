// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// tokenFolder is where the admission plugin for service accounts mounts a token.
const tokenFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// source is a volume without its name.
type source = corev1.VolumeSource

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func configMap(name string, mode *int32, items ...corev1.KeyToPath) source {
	return source{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named(name), DefaultMode: mode, Items: items}}
}

func secret(name string, mode *int32, items ...corev1.KeyToPath) source {
	return source{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: mode, Items: items}}
}

func optional(s source) source {
	if s.ConfigMap != nil {
		s.ConfigMap.Optional = ptr.To(true)
	}
	if s.Secret != nil {
		s.Secret.Optional = ptr.To(true)
	}
	return s
}

func projected(mode *int32, sources ...corev1.VolumeProjection) source {
	return source{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: sources}}
}

func item(key, path string, mode *int32) corev1.KeyToPath {
	return corev1.KeyToPath{Key: key, Path: path, Mode: mode}
}

func tokenFor(audience string, seconds int64, path string) corev1.VolumeProjection {
	return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: path}}
}

func fieldFile(path, field string, mode *int32) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, Mode: mode, FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}
}

func resourceFile(path, container, name, divisor string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: path, ResourceFieldRef: &corev1.ResourceFieldSelector{
		ContainerName: container, Resource: name, Divisor: resource.MustParse(divisor),
	}}
}

func fieldVariable(name, field string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}}}
}

func resourceVariable(name, of, divisor string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: of, Divisor: resource.MustParse(divisor)}}}
}

func configVariable(name, of, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: named(of), Key: key, Optional: &optional,
	}}}
}

func secretVariable(name, of, key string, optional bool) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: named(of), Key: key, Optional: &optional,
	}}}
}

func variablesOf(configMap, secret, prefix string, optional bool) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{
		{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named(configMap), Optional: &optional}},
		{Prefix: prefix, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named(secret), Optional: &optional}},
	}
}

// mountOf is where an observer finds a volume.
func mountOf(volume string) string { return "/v/" + volume }

// observing is a pod whose container reports all volumes, its token and its variables.
// Volumes are called v1, v2 and so on.
func observing(sources ...source) corev1.PodSpec {
	var volumes []corev1.Volume
	for _, s := range sources {
		volumes = append(volumes, corev1.Volume{Name: "v" + string(rune('1'+len(volumes))), VolumeSource: s})
	}
	spec := pod(5, observes("c", volumes))
	spec.Volumes = volumes
	return spec
}

// observes mounts volumes and reports them, and a token where there is one.
func observes(name string, volumes []corev1.Volume) corev1.Container {
	var mounts []corev1.VolumeMount
	folders := []string{tokenFolder}
	for _, v := range volumes {
		mounts = append(mounts, corev1.VolumeMount{Name: v.Name, MountPath: mountOf(v.Name)})
		folders = append(folders, mountOf(v.Name))
	}
	c := observer(name, folders...)
	c.VolumeMounts = mounts
	return c
}

func edited(spec corev1.PodSpec, edit func(*corev1.PodSpec)) corev1.PodSpec {
	edit(&spec)
	return spec
}

// seen is a scenario that runs, reports and ends.
func seen(name, about string, spec corev1.PodSpec) scenario {
	return scenario{name: name, trigger: about, spec: spec, steps: untilReady, meta: metav1.ObjectMeta{
		Labels:      map[string]string{"app": "web", "tier.example.com/name": "front"},
		Annotations: map[string]string{"note": "two\nlines \"quoted\"", "build": "7"},
	}}
}

// withObjects are templates that use ConfigMaps, Secrets, tokens and fields of the pod.
func withObjects() []scenario {
	return slices.Concat(files(), owners(), variables(), accounts(), changes())
}

func files() []scenario {
	items := []corev1.KeyToPath{item("plain", "plain", ptr.To[int32](0o400)), item("nested.conf", "a/b/nested.conf", ptr.To[int32](0o755)), item("unicode", "a/other", nil)}
	keys := []corev1.KeyToPath{item("user", "user", ptr.To[int32](0o444)), item("tls.key", "tls/key.pem", nil)}
	all := projected(ptr.To[int32](0o440),
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(settings), Items: items}},
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(missing), Optional: ptr.To(true)}},
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(credentials), Items: keys}},
		corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{fieldFile("pod/labels", "metadata.labels", ptr.To[int32](0o600))}}},
		tokenFor("vault", 1200, "tokens/vault"), tokenFor("other", 7200, "tokens/other"))
	downward := source{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: ptr.To[int32](0o444), Items: []corev1.DownwardAPIVolumeFile{
		fieldFile("labels", "metadata.labels", nil), fieldFile("annotations", "metadata.annotations", ptr.To[int32](0o400)),
		fieldFile("one/label", "metadata.labels['tier.example.com/name']", nil), fieldFile("one/annotation", "metadata.annotations['note']", nil),
		fieldFile("one/none", "metadata.labels['none']", nil),
		fieldFile("name", "metadata.name", nil), fieldFile("namespace", "metadata.namespace", nil), fieldFile("uid", "metadata.uid", nil),
		resourceFile("cpu", "c", "limits.cpu", "1m"), resourceFile("cpu-request", "c", "requests.cpu", "1m"),
		resourceFile("memory", "c", "limits.memory", "1Mi"), resourceFile("unset-cpu", "c2", "limits.cpu", "1"), resourceFile("unset-memory", "c2", "limits.memory", "1Gi"),
	}}}
	return []scenario{
		seen("files-configmap", "ConfigMap", observing(configMap(settings, nil), configMap(settings, ptr.To[int32](0o640), items...),
			optional(configMap(missing, nil)), optional(configMap(settings, nil, item("plain", "plain", nil), item("none", "none", nil))), configMap(immutable, ptr.To[int32](0o777)))),
		seen("files-secret", "Secret", observing(secret(credentials, nil), secret(credentials, ptr.To[int32](0o400), keys...),
			optional(secret(missing, nil)), optional(secret(credentials, nil, item("none", "none", nil))))),
		seen("files-projected", "projected", observing(all)),
		seen("files-downward", "downwardAPI", edited(observing(downward), func(s *corev1.PodSpec) {
			s.Containers[0] = withResources(s.Containers[0], resources(50, 48))
			s.Containers = append(s.Containers, corev1.Container{Name: "c2", Image: s.Containers[0].Image, Args: []string{"serve"}})
		})),
		seen("files-subpath", "subPath", edited(observing(configMap(settings, nil, items...), secret(credentials, nil), source{EmptyDir: &corev1.EmptyDirVolumeSource{}}), func(s *corev1.PodSpec) {
			s.Containers[0].Env = []corev1.EnvVar{configVariable("PART", settings, "plain", false), {Name: "DIR", Value: "b"}, fieldVariable("POD", "metadata.name")}
			s.Containers[0].VolumeMounts = append(s.Containers[0].VolumeMounts,
				corev1.VolumeMount{Name: "v1", MountPath: "/v/file", SubPath: "plain"},
				corev1.VolumeMount{Name: "v1", MountPath: "/v/folder", SubPathExpr: "a/$(DIR)"},
				corev1.VolumeMount{Name: "v2", MountPath: "/v/v3/within"}, // in another volume
				corev1.VolumeMount{Name: "v3", MountPath: "/v/made", SubPathExpr: "$(POD)/x", ReadOnly: true},
			)
			s.Containers[0].Args = slices.Insert(s.Containers[0].Args, 3, "/v/file", "/v/folder", "/v/made")
		})),
	}
}

// owners are templates whose containers are not root.
func owners() []scenario {
	volumes := func() []source {
		return []source{
			configMap(settings, ptr.To[int32](0o400)), secret(credentials, ptr.To[int32](0o600), item("user", "x/user", ptr.To[int32](0o200))), secret(credentials, nil),
			projected(nil, tokenFor("vault", 600, "token"), corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(credentials)}}),
			{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{fieldFile("name", "metadata.name", ptr.To[int32](0o400))}}},
			{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		}
	}
	as := func(name string, context corev1.PodSecurityContext, edit func(*corev1.PodSpec)) scenario {
		return seen(name, "Owners", edited(observing(volumes()...), func(s *corev1.PodSpec) {
			s.SecurityContext = &context
			if edit != nil {
				edit(s)
			}
		}))
	}
	another := func(user int64) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			c := observes("c2", s.Volumes)
			c.SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "j", MountPath: journals})
			s.Containers = append(s.Containers, c)
		}
	}
	return []scenario{
		as("owner-user", corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}, nil),
		as("owner-user-and-group", corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](3000), FSGroup: ptr.To[int64](2000)}, nil),
		as("owner-fsgroup", corev1.PodSecurityContext{FSGroup: ptr.To[int64](2000), FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch)}, nil),
		as("owner-two-users", corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}, another(1001)),
		as("owner-same-user-twice", corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000), RunAsGroup: ptr.To[int64](3000), SupplementalGroups: []int64{4000}}, func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: ptr.To[int64](1001)}
			another(1001)(s)
		}),
		as("owner-two-users-fsgroup", corev1.PodSecurityContext{FSGroup: ptr.To[int64](2000)}, another(1001)),
	}
}

func variables() []scenario {
	spec := edited(observing(), func(s *corev1.PodSpec) {
		c := &s.Containers[0]
		*c = withResources(*c, resources(50, 48))
		c.EnvFrom = slices.Concat(variablesOf(settings, credentials, "", false), variablesOf(settings, credentials, "P_", false), variablesOf(missing, missing, "", true))
		c.Env = []corev1.EnvVar{
			configVariable("C1", settings, "plain", false), configVariable("C2", settings, "none", true), configVariable("C3", missing, "none", true),
			secretVariable("S1", credentials, "password", false), secretVariable("S2", credentials, "none", true), secretVariable("S3", missing, "none", true),
			{Name: "user", Value: "before the Secret's"}, {Name: "REFERS", Value: "$(S1) $(C1) $(P_user) $(C2) $$(C1)"},
			fieldVariable("NAME", "metadata.name"), fieldVariable("NAMESPACE", "metadata.namespace"), fieldVariable("UID", "metadata.uid"),
			fieldVariable("LABEL", "metadata.labels['app']"), fieldVariable("NOTE", "metadata.annotations['note']"), fieldVariable("NONE", "metadata.labels['none']"),
			fieldVariable("NODE", "spec.nodeName"), fieldVariable("ACCOUNT", "spec.serviceAccountName"),
			fieldVariable("HOST_IP", "status.hostIP"), fieldVariable("POD_IP", "status.podIP"), fieldVariable("POD_IPS", "status.podIPs"),
			resourceVariable("CPU", "limits.cpu", "1m"), resourceVariable("CPU_REQUEST", "requests.cpu", "1"), resourceVariable("MEMORY", "limits.memory", "1Mi"),
			resourceVariable("DISK", "requests.ephemeral-storage", "1"),
		}
	})
	initial := edited(observing(), func(s *corev1.PodSpec) {
		first := serve("i")
		first.Args = []string{"seq", "report", reportOf("i", "start"), tokenFolder}
		first.Env = []corev1.EnvVar{secretVariable("S", credentials, "user", false)}
		first.VolumeMounts = s.Containers[0].VolumeMounts
		s.InitContainers = []corev1.Container{first}
	})
	return []scenario{seen("env-objects", "env", spec), seen("env-init", "env", initial)}
}

// accounts are templates that use the token.
func accounts() []scenario {
	asking := func(name string, status string, edit func(*corev1.PodSpec)) scenario {
		return seen(name, "Token", edited(observing(), func(s *corev1.PodSpec) {
			s.Containers[0].Args = slices.Insert(s.Containers[0].Args, 1, "check-api", "/api/v1/namespaces/"+namespace+"/configmaps", status, ",")
			edit(s)
		}))
	}
	without := seen("token-not-mounted", "Token", edited(observing(), func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = ptr.To(false) }))
	return []scenario{
		asking("token-of-default", "403", func(*corev1.PodSpec) {}),
		asking("token-of-reader", "200", func(s *corev1.PodSpec) { s.ServiceAccountName = reader }),
		asking("token-not-root", "200", func(s *corev1.PodSpec) {
			s.ServiceAccountName, s.SecurityContext = reader, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}
		}),
		without,
	}
}

// changes are objects that are made, changed and deleted while a workload waits or runs.
func changes() []scenario {
	const creating, refused = "ContainerCreating", "CreateContainerConfigError"
	first, second := map[string]string{"key": "first", "gone": "x"}, map[string]string{"key": "second", "new": "y"}
	late := func(name, reason, words string, spec corev1.PodSpec) scenario {
		s := seen(name, "Waiting", spec)
		s.steps = []step{{name: "waits", until: waiting("c", reason, 0), do: afterEvent(words, makeOwn(first))}, {name: "ready", until: ready}}
		return s
	}
	withoutKey := func(s scenario) scenario {
		s.own = map[string]string{"other": "z"}
		return s
	}
	variable := func(v corev1.EnvVar) corev1.PodSpec {
		return edited(observing(), func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{v} })
	}
	config, confidential := variable(configVariable("C", ownObject, "key", false)), variable(secretVariable("S", ownObject, "key", false))
	followed := edited(observing(configMap(ownObject, nil), secret(ownObject, nil), projected(nil,
		corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named(ownObject), Items: []corev1.KeyToPath{item("key", "c/key", nil)}}},
		corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(ownObject), Items: []corev1.KeyToPath{item("key", "s/key", nil)}}},
	)), func(s *corev1.PodSpec) {
		c := &s.Containers[0]
		c.Env = []corev1.EnvVar{configVariable("C", ownObject, "key", false)}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "v1", MountPath: "/v/file", SubPath: "key"})
		c.Lifecycle.PreStop.Exec.Command = append(c.Lifecycle.PreStop.Exec.Command, "/v/file")
		c.ReadinessProbe = execProbe("check-content", "/v/v2/key", "second")
	})
	follow := seen("files-follow", "Update", followed)
	follow.own = first
	follow.steps = []step{{name: "runs", until: running("c"), do: afterEvent(`holds "first"`, makeOwn(second))}, {name: "ready", until: ready}}
	deleted := seen("env-object-deleted", "Restart", edited(observing(configMap(ownObject, nil)), func(s *corev1.PodSpec) {
		c := servesAll("c")
		c.Env, c.VolumeMounts = config.Containers[0].Env, s.Containers[0].VolumeMounts
		s.Containers[0] = c
	}))
	deleted.own, deleted.deletesOwn = first, true
	deleted.steps = []step{
		{name: "ready", until: ready, do: both(deleteOwn, get("/exit?code=3"))},
		{name: "waits", until: waiting("c", refused, 0), quick: true, do: makeOwn(second)},
		{name: "restarted", until: restartedAndReady("c", 1)},
	}
	return []scenario{
		late("late-configmap", creating, "not found", observing(configMap(ownObject, nil))),
		late("late-secret", creating, "not found", observing(secret(ownObject, nil))),
		late("late-projected", creating, "not found", observing(projected(nil, corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named(ownObject)}}))),
		withoutKey(late("late-config-key", creating, "non-existent", observing(configMap(ownObject, nil, item("key", "key", nil))))),
		withoutKey(late("late-secret-key", creating, "non-existent", observing(secret(ownObject, nil, item("key", "key", nil))))),
		late("late-env-config", refused, "not found", config), late("late-env-secret", refused, "not found", confidential),
		withoutKey(late("late-env-config-key", refused, "couldn't find key", config)),
		withoutKey(late("late-env-secret-key", refused, "couldn't find key", confidential)),
		follow, deleted,
	}
}

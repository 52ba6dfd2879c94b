// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package poddir

import (
	"net"
	"slices"
)

// variables are those of one container while they are resolved.
type variables struct {
	names  []string
	values map[string]string
	// server are those that say where the API server is.
	server []EnvVar
}

func (v *variables) set(name, value string) {
	if _, again := v.values[name]; !again {
		v.names = append(v.names, name)
	}
	v.values[name] = value
}

// lookup finds what a reference stands for: what was set before it, or the API server's.
func (v *variables) lookup(name string) (string, bool) {
	if value, ok := v.values[name]; ok {
		return value, true
	}
	if i := slices.IndexFunc(v.server, func(e EnvVar) bool { return e.Name == name }); i >= 0 {
		return v.server[i].Value, true
	}
	return "", false
}

// addServer sets the API server's variables that nothing else has set.
func (v *variables) addServer() {
	for _, e := range v.server {
		if _, set := v.values[e.Name]; !set {
			v.set(e.Name, e.Value)
		}
	}
}

func (v *variables) list() []EnvVar {
	env := make([]EnvVar, 0, len(v.names))
	for _, name := range v.names {
		env = append(env, EnvVar{Name: name, Value: v.values[name]})
	}
	return env
}

// APIServer is where containers find the API server; without a host none of this is set.
type APIServer struct {
	Host, Port string
}

// variables are those that a kubelet sets for the Service kubernetes whatever
// enableServiceLinks says. Its one port is named https. (envvars/envvars.go:FromServices,
// kubelet_pods.go:getServiceEnvVarMap)
func (a APIServer) variables() []EnvVar {
	if a.Host == "" {
		return nil
	}
	url := "tcp://" + net.JoinHostPort(a.Host, a.Port)
	port := "KUBERNETES_PORT_" + a.Port + "_TCP"
	return []EnvVar{
		{"KUBERNETES_SERVICE_HOST", a.Host},
		{"KUBERNETES_SERVICE_PORT", a.Port},
		{"KUBERNETES_SERVICE_PORT_HTTPS", a.Port},
		{"KUBERNETES_PORT", url},
		{port, url},
		{port + "_PROTO", "tcp"},
		{port + "_PORT", a.Port},
		{port + "_ADDR", a.Host},
	}
}

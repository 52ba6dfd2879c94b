// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package shim

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/managedworkload/managedworkload/api/options"
	"github.com/managedworkload/managedworkload/api/v1alpha1"
	"github.com/managedworkload/managedworkload/runtime/nodeadmission"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/podcgroup"
)

// Options are the flags of the shim.
type Options struct {
	options.Shared
	// NodeName is the node whose NodeWorkloads are run.
	NodeName string
	// RuntimeEndpoint is the CRI socket.
	RuntimeEndpoint string
	// StateDir holds pods, checkpoints and the lock.
	StateDir string
	// PodLogDir holds the logs of the containers.
	PodLogDir string
	// CgroupParent is above the pods' cgroups.
	CgroupParent string
	// CgroupDriver is cgroupfs, systemd, or auto: what the runtime says.
	CgroupDriver string
	// MaxCPU, MaxMemory and MaxPids bound the cgroup CgroupParent, and PodMaxPids each
	// pod's; "" and 0 are no bound.
	MaxCPU, MaxMemory   string
	MaxPids, PodMaxPids int64
	// ClusterDNS, ClusterDomain and ResolvConf make the pods' resolv.conf.
	ClusterDNS    []string
	ClusterDomain string
	ResolvConf    string
	// AllowedUnsafeSysctls are sysctls, or beginnings of names and "*", that pods may set
	// beside the safe ones.
	AllowedUnsafeSysctls []string
	// SeccompRoot is the directory of Localhost seccomp profiles. When empty it is the
	// kubelet's, or one below StateDir with RegisterNode.
	SeccompRoot string
	// APIServerHost and APIServerPort are where containers find the API server.
	APIServerHost, APIServerPort string
	// StaticDir holds the files of static workloads; "" if there is no such directory.
	StaticDir string
	// MinRestartBackoff is the shortest wait before a container restarts, whatever a workload says.
	MinRestartBackoff time.Duration
	// NodeIPs are the node's addresses; found out when empty.
	NodeIPs []string
	// HostRoot is where the node's root directory is seen, when the shim runs in
	// a container.
	HostRoot string
	// RegisterNode keeps a Node object where there is no kubelet.
	RegisterNode bool
	// ShutdownGracePeriod is how long a shutdown of the node waits for the workloads, and
	// ShutdownGracePeriodCriticalPods the part of it for critical ones. 0: it does not wait.
	ShutdownGracePeriod, ShutdownGracePeriodCriticalPods time.Duration
	// ShutdownGracePeriodByPodPriority is the same by priority: PRIORITY=PERIOD each.
	ShutdownGracePeriodByPodPriority []string
	// AllowForeignPods lets the shim use a runtime that has pods it does not manage.
	AllowForeignPods bool

	// sysctls are those that pods may set.
	sysctls *nodeadmission.Sysctls
	DiskOptions

	// eviction are the flags about node pressure.
	eviction evictionOptions
	// bounds are MaxCPU, MaxMemory and MaxPids.
	bounds podcgroup.Bounds
	// shutdown are the groups of a shutdown; none: it does not end workloads.
	shutdown []plan.ShutdownPeriod
}

// flagMinBackoff is the flag of MinRestartBackoff.
const flagMinBackoff = "min-restart-backoff"

// cgroupDriverAuto takes what the runtime says.
const cgroupDriverAuto = "auto"

// AddFlags adds the flags and sets the defaults.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	o.Shared.AddFlags(flags, ":8090", "127.0.0.1:8091")
	flags.StringVar(&o.NodeName, "node-name", os.Getenv("NODE_NAME"), "Name of this node; $NODE_NAME unless given, and with --static-dir the host's name")
	flags.StringVar(&o.RuntimeEndpoint, "runtime-endpoint", "unix:///run/managedworkload/containerd/containerd.sock",
		"CRI socket of a container runtime that no kubelet uses")
	flags.StringVar(&o.StateDir, "state-dir", "/var/lib/managedworkload/shim", "Directory of volumes, checkpoints and the lock")
	flags.StringVar(&o.SeccompRoot, "seccomp-root", "", "Directory of Localhost seccomp profiles, by its path on the node; unless given, the kubelet's "+kubeletSeccompRoot+", or seccomp in --state-dir with --register-node")
	flags.StringSliceVar(&o.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", nil,
		`Sysctls that workloads may set beside the safe ones, by name or by the beginning of names and *, such as net.core.somaxconn,kernel.msg*; they must be namespaced by the kernel`)
	flags.StringVar(&o.PodLogDir, "pod-log-dir", "/var/log/managedworkload/pods", "Directory of the containers' logs")
	flags.StringVar(&o.StaticDir, "static-dir", "", "Directory of files with static workloads, each a NodeWorkload or a ManagedWorkload: they run without an API server, and end with their files")
	o.DiskOptions.addFlags(flags)
	flags.StringVar(&o.CgroupParent, "cgroup-parent", "/managedworkload", "Parent cgroup of the workloads' cgroups; it must be outside a kubelet's")
	flags.StringVar(&o.CgroupDriver, "cgroup-driver", cgroupDriverAuto, "Cgroup driver: cgroupfs, systemd, or auto, which is the one that the runtime reports")
	flags.StringVar(&o.MaxCPU, "max-cpu", "", `CPUs that all workloads of this node may use together, such as 2 or 500m; "" or 0: no bound`)
	flags.StringVar(&o.MaxMemory, "max-memory", "", `Memory that all workloads of this node may use together, such as 4Gi; "" or 0: no bound`)
	flags.Int64Var(&o.MaxPids, "max-pids", 0, "Processes and threads that all workloads of this node may have together; 0: no bound")
	flags.Int64Var(&o.PodMaxPids, "pod-max-pids", 0, "Processes and threads that each workload may have; 0: no bound")
	flags.DurationVar(&o.MinRestartBackoff, flagMinBackoff, plan.DefaultBackoffBase,
		"Shortest wait before a container that keeps exiting restarts: spec.restartBackoff of a workload is raised to it; at most 5m; 0: no minimum")
	flags.StringSliceVar(&o.ClusterDNS, "cluster-dns", nil, "DNS servers for dnsPolicy ClusterFirst")
	flags.StringVar(&o.ClusterDomain, "cluster-domain", "cluster.local", "Domain of the cluster's Services")
	flags.StringVar(&o.ResolvConf, "resolv-conf", "/etc/resolv.conf", "Resolver configuration file of the node")
	flags.StringVar(&o.APIServerHost, "api-server-host", "",
		"Host of the API server for containers, a name or an address (KUBERNETES_SERVICE_HOST); the shim's own $KUBERNETES_SERVICE_HOST unless given")
	flags.StringVar(&o.APIServerPort, "api-server-port", "",
		"Port of the API server for containers (KUBERNETES_SERVICE_PORT); the shim's own $KUBERNETES_SERVICE_PORT, or else 443, unless given")
	flags.StringSliceVar(&o.NodeIPs, "node-ip", nil, "Addresses of the node, the primary one first; if empty: the address of the interface with the default route")
	flags.StringVar(&o.HostRoot, "host-root", "", "Path where the node's root directory is mounted, if the shim runs in a container")
	flags.BoolVar(&o.RegisterNode, "register-node", false, "Create and update a Node object (tainted against Pods); for nodes without a kubelet")
	o.addShutdownFlags(flags)
	flags.BoolVar(&o.AllowForeignPods, "allow-foreign-pods", false, "Start workloads even if the runtime has pods that this shim does not manage")
	o.eviction.addFlags(flags)
}

// complete checks the options and fills in what can be found out.
func (o *Options) complete() error {
	var err error
	o.bounds, err = o.parseBounds()
	errs := []error{
		o.Validate(), err, o.completeAPIServer(), o.completeSysctls(), o.DiskOptions.complete(),
		o.eviction.complete(o.RegisterNode), o.completeShutdown(),
	}
	if m := o.MinRestartBackoff; m < 0 || m > plan.DefaultBackoffMax {
		errs = append(errs, fmt.Errorf("--%s must be between 0 and %v, not %v", flagMinBackoff, plan.DefaultBackoffMax, m))
	}
	if o.NodeName == "" && o.StaticDir != "" {
		o.NodeName = hostName()
	}
	if o.NodeName == "" {
		errs = append(errs, errors.New("--node-name must be set"))
	}
	if longest := 253 - len(v1alpha1.LeaseNamePrefix); len(o.NodeName) > longest {
		errs = append(errs, fmt.Errorf("--node-name must have at most %d characters: the shim's Lease is named %s<node>", longest, v1alpha1.LeaseNamePrefix))
	}
	for flag, dir := range map[string]string{"--state-dir": o.StateDir, "--pod-log-dir": o.PodLogDir, "--seccomp-root": o.seccompDir()} {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("%s must be an absolute path, not %q", flag, dir))
		}
	}
	if o.StaticDir != "" && !filepath.IsAbs(o.StaticDir) {
		errs = append(errs, fmt.Errorf("--static-dir must be an absolute path, not %q", o.StaticDir))
	}
	for _, ip := range append(append([]string(nil), o.NodeIPs...), o.ClusterDNS...) {
		if net.ParseIP(ip) == nil {
			errs = append(errs, fmt.Errorf("%q is not an IP address", ip))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(o.NodeIPs) == 0 {
		o.NodeIPs = []string{nodeIP()}
	}
	return nil
}

// completeAPIServer takes from the environment what is not given. A port that is not given
// is that of the environment only with its host.
func (o *Options) completeAPIServer() error {
	if o.APIServerHost == "" && o.APIServerPort != "" {
		return errors.New("--api-server-port is given without --api-server-host")
	}
	if o.APIServerHost == "" {
		if o.APIServerHost, o.APIServerPort = os.Getenv(envServiceHost), os.Getenv(envServicePort); o.APIServerHost == "" {
			return nil
		}
	}
	if o.APIServerPort == "" {
		o.APIServerPort = "443"
	}
	if net.ParseIP(o.APIServerHost) == nil && len(validation.IsDNS1123Subdomain(o.APIServerHost)) > 0 {
		return fmt.Errorf("--api-server-host: %q is neither an address nor a name", o.APIServerHost)
	}
	if _, err := strconv.ParseUint(o.APIServerPort, 10, 16); err != nil || o.APIServerPort[0] == '0' {
		return fmt.Errorf("--api-server-port: %q is no port", o.APIServerPort)
	}
	return nil
}

// Variables by which a Pod finds the API server.
const (
	envServiceHost = "KUBERNETES_SERVICE_HOST"
	envServicePort = "KUBERNETES_SERVICE_PORT"
)

// hostName is what the kubelet calls its node: the host's name in lower case, "" if that is
// not known. (k8s.io/component-helpers/node/util:GetHostname)
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(name))
}

// nodeIP is the address of the interface with the default route, else loopback.
func nodeIP() string {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return "127.0.0.1"
	}
	return ip.String()
}

// checkpointDir, boundsFile, podsDir and imagesDir are below the state directory.
func (o *Options) checkpointDir() string { return filepath.Join(o.StateDir, "workloads") }
func (o *Options) boundsFile() string    { return filepath.Join(o.StateDir, "bounds") }
func (o *Options) imagesDir() string     { return filepath.Join(o.StateDir, "images") }
func (o *Options) podsDir() string       { return filepath.Join(o.StateDir, "pods") }

// kubeletSeccompRoot is where a kubelet has its profiles: what writes some there for its Pods
// finds them used here, too.
const kubeletSeccompRoot = "/var/lib/kubelet/seccomp"

func (o *Options) seccompDir() string {
	if o.RegisterNode {
		return cmp.Or(o.SeccompRoot, filepath.Join(o.StateDir, "seccomp"))
	}
	return cmp.Or(o.SeccompRoot, kubeletSeccompRoot)
}

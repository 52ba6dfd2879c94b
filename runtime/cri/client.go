// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/runtime/hostfs"
	"github.com/managedworkload/managedworkload/runtime/plan"
	"github.com/managedworkload/managedworkload/runtime/poddir"
	"github.com/managedworkload/managedworkload/runtime/runtimeerror"
	"github.com/managedworkload/managedworkload/runtime/userns"
)

const (
	// maxMessageSize in bytes, as the kubelet's. (cri-client/pkg/utils.go)
	maxMessageSize = 16 << 20
	// callTimeout is the kubelet's runtimeRequestTimeout.
	callTimeout = 2 * time.Minute
	// The back-off of reconnecting to the runtime's socket.
	minReconnect = 100 * time.Millisecond
	maxReconnect = 3 * time.Second
	// minConnectTimeout is how long one attempt to connect may take.
	minConnectTimeout = 5 * time.Second
)

// PodDir is what the client needs to know of a pod's place on the node.
type PodDir interface {
	ContainerOptions(ctx context.Context, pod *corev1.Pod, c *corev1.Container, podIPs []string, restartCount int) (poddir.Options, error)
	DNS(pod *corev1.Pod) (poddir.DNSConfig, error)
	Hostname(pod *corev1.Pod) (string, error)
	LogDirectory(pod *corev1.Pod) string
	CgroupParent(pod *corev1.Pod) string
	UserNamespace(pod *corev1.Pod) (userns.Range, error)
}

var _ PodDir = (*poddir.Manager)(nil)

// Config of a Client.
type Config struct {
	// Endpoint is the runtime's socket: unix:///path or an absolute path.
	Endpoint string
	// Instance identifies this shim (the node's name) on everything it creates.
	Instance string
	// SeccompRoot is the directory of Localhost seccomp profiles.
	SeccompRoot string
	// PodDir is the pods' place on the node.
	PodDir PodDir
	// Differences from the kubelet.
	Differences plan.Differences
	// Observe is called after each call of the runtime; nil for none.
	Observe Observer
}

// Client talks to one container runtime. It is safe for concurrent use.
type Client struct {
	config    Config
	conn      io.Closer
	runtime   runtimeapi.RuntimeServiceClient
	images    runtimeapi.ImageServiceClient
	clusterID atomic.Pointer[string]
	healthy   atomic.Bool
	statuses  *statusCache
	files     terminationFiles
	// foreign are containers that the shim did not create, in its sandboxes, at the
	// last list of all pods.
	foreign atomic.Pointer[map[types.UID][]plan.ForeignContainer]
	users   *userCache
	// commands are the calls of ExecSync under way.
	commands sync.WaitGroup
	node     nodeResources
	// settle is how long a new event stream must last to count as healthy.
	settle time.Duration
	// callTimeout bounds a CRI call. RunPodSandbox gets twice as much, StopContainer
	// and ExecSync get it on top of their own timeout. PullImage has no bound: the
	// runtime has its own for a pull without progress.
	callTimeout time.Duration
}

// Dial makes a client. It waits for nothing: while the socket is not there,
// calls fail with Unavailable and the connection is retried.
func Dial(ctx context.Context, config Config) (*Client, error) {
	target, err := dialTarget(config.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay = minReconnect
	reconnect.MaxDelay = maxReconnect
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithUnaryInterceptor(config.Observe.interceptor()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: minConnectTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageSize), grpc.MaxCallSendMsgSize(maxMessageSize)),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", config.Endpoint, err)
	}
	c := newClient(ctx, conn, config)
	c.conn = conn
	return c, nil
}

// New makes a client over a connection that stays the caller's, such as one to a
// runtime in this process; the endpoint is not looked at.
func New(ctx context.Context, conn grpc.ClientConnInterface, config Config) (*Client, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	return newClient(ctx, conn, config), nil
}

func (config *Config) check() error {
	if config.Instance == "" {
		return errors.New("instance must be set")
	}
	if config.PodDir == nil {
		return errors.New("pod directory must be set")
	}
	return nil
}

func newClient(ctx context.Context, conn grpc.ClientConnInterface, config Config) *Client {
	c := &Client{
		config:   config,
		runtime:  runtimeapi.NewRuntimeServiceClient(conn),
		images:   runtimeapi.NewImageServiceClient(conn),
		statuses: newStatusCache(),
		files:    terminationFiles{hostfs.NewPatience(filePatience)},
		users:    newUserCache(),
		node:     readNodeResources(ctx),
		settle:   settleTime,

		callTimeout: callTimeout,
	}
	c.SetClusterID("")
	return c
}

// Close ends the connection that Dial made; calls under way fail with Canceled. It
// waits for those of ExecSync whose callers have given up.
func (c *Client) Close() error {
	defer c.commands.Wait()
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}

// SetClusterID sets the identity of the cluster, the UID of its namespace kube-system,
// that new sandboxes and containers are labelled with; empty until it is known.
func (c *Client) SetClusterID(id string) {
	c.clusterID.Store(&id)
}

// dialTarget makes gRPC's name of a socket.
func dialTarget(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("runtime endpoint %q is not unix:// with an absolute path", endpoint)
	}
	return "unix://" + path, nil
}

// badAnswer is an error of our own about an answer of the runtime.
func badAnswer(operation, message string) error {
	return fmt.Errorf("%s: %w", operation, runtimeerror.New(message))
}

// invoke calls the runtime with a deadline; a timeout of 0 is none.
func invoke[Req, Resp any](
	ctx context.Context, timeout time.Duration, operation string,
	call func(context.Context, *Req, ...grpc.CallOption) (*Resp, error), request *Req,
) (*Resp, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	response, err := call(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return response, nil
}

// quote names an object in the description of an operation.
func quote(verb, id string) string {
	return fmt.Sprintf("%s %q", verb, id)
}

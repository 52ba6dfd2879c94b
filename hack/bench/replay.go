// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/managedworkload/managedworkload/hack/criproxy"
)

// script is what the shim asked of the runtime for one workload, its changing
// requests alone and each once, in order.
type script []criproxy.Call

// scriptOf keeps the first of equal requests: a second StopPodSandbox is the
// shim's way of being sure and not what the work takes.
func scriptOf(calls []criproxy.Call) script {
	var kept script
	for _, c := range calls {
		same := func(k criproxy.Call) bool { return k.Method == c.Method && string(k.Request) == string(c.Request) }
		if changes(c) && !slices.ContainsFunc(kept, same) {
			kept = append(kept, c)
		}
	}
	return kept
}

// player makes the requests of scripts by hand.
type player struct {
	runtimeapi.RuntimeServiceClient
	conn  *grpc.ClientConn
	bench *bench
}

func (b *bench) newPlayer(endpoint string) (*player, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &player{RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn), conn: conn, bench: b}, nil
}

func (p *player) close() error { return p.conn.Close() }

// played is a pod that a player made.
type played struct {
	name    string
	sandbox string
	config  *runtimeapi.PodSandboxConfig
	// ids are the containers' by those in the script.
	ids map[string]string
}

// stageTimes are how long each kind of request took.
type stageTimes map[string]time.Duration

// play makes the requests of a script for the pod, with names, labels, log folder,
// cgroup and mounted files of its own.
func (p *player) play(ctx context.Context, s script, pod *played) (stageTimes, error) {
	times := stageTimes{}
	for _, c := range s {
		request, err := p.prepare(c, pod)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Method, err)
		}
		began := time.Now()
		if err := p.call(ctx, c, request, pod); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Method, err)
		}
		times[stageOf(c.Method)] += time.Since(began)
	}
	return times, nil
}

// prepare is what is no request: it is done before the clock runs.
func (p *player) prepare(c criproxy.Call, pod *played) (proto.Message, error) {
	switch c.Method {
	case "RunPodSandbox":
		r := &runtimeapi.RunPodSandboxRequest{}
		if err := proto.Unmarshal(c.Request, r); err != nil {
			return nil, err
		}
		p.rename(r.Config, pod)
		return r, nil
	case "CreateContainer":
		r := &runtimeapi.CreateContainerRequest{}
		if err := proto.Unmarshal(c.Request, r); err != nil {
			return nil, err
		}
		r.PodSandboxId, r.SandboxConfig = pod.sandbox, pod.config
		r.Config.Labels = foreignLabels(r.Config.GetLabels())
		return r, p.mountOwnFiles(r.Config, pod)
	case "StartContainer":
		r := &runtimeapi.StartContainerRequest{}
		err := proto.Unmarshal(c.Request, r)
		r.ContainerId = pod.ids[r.GetContainerId()]
		return r, err
	case "ExecSync":
		r := &runtimeapi.ExecSyncRequest{}
		err := proto.Unmarshal(c.Request, r)
		r.ContainerId = pod.ids[r.GetContainerId()]
		return r, err
	case "StopContainer":
		r := &runtimeapi.StopContainerRequest{}
		err := proto.Unmarshal(c.Request, r)
		r.ContainerId = pod.ids[r.GetContainerId()]
		return r, err
	case "RemoveContainer":
		r := &runtimeapi.RemoveContainerRequest{}
		err := proto.Unmarshal(c.Request, r)
		r.ContainerId = pod.ids[r.GetContainerId()]
		return r, err
	case "StopPodSandbox":
		return &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.sandbox}, nil
	case "RemovePodSandbox":
		return &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.sandbox}, nil
	default:
		return nil, errors.New("not a request that is replayed")
	}
}

func (p *player) call(ctx context.Context, c criproxy.Call, request proto.Message, pod *played) error {
	switch r := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		answer, err := p.RunPodSandbox(ctx, r)
		pod.sandbox, pod.config = answer.GetPodSandboxId(), r.GetConfig()
		return err
	case *runtimeapi.CreateContainerRequest:
		answer, err := p.CreateContainer(ctx, r)
		if err != nil {
			return err
		}
		recorded := &runtimeapi.CreateContainerResponse{}
		if err := proto.Unmarshal(c.Answer, recorded); err != nil {
			return err
		}
		pod.ids[recorded.GetContainerId()] = answer.GetContainerId()
		return nil
	case *runtimeapi.StartContainerRequest:
		_, err := p.StartContainer(ctx, r)
		return err
	case *runtimeapi.ExecSyncRequest:
		_, err := p.ExecSync(ctx, r)
		return err
	case *runtimeapi.StopContainerRequest:
		_, err := p.StopContainer(ctx, r)
		return err
	case *runtimeapi.RemoveContainerRequest:
		_, err := p.RemoveContainer(ctx, r)
		return err
	case *runtimeapi.StopPodSandboxRequest:
		_, err := p.StopPodSandbox(ctx, r)
		return err
	case *runtimeapi.RemovePodSandboxRequest:
		_, err := p.RemovePodSandbox(ctx, r)
		return err
	default:
		return fmt.Errorf("a %T is not replayed", request)
	}
}

// rename gives a recorded pod another identity, or the shim would take it for one
// of its own.
func (p *player) rename(config *runtimeapi.PodSandboxConfig, pod *played) {
	config.Metadata.Name, config.Metadata.Uid = pod.name, pod.name
	config.Hostname = pod.name
	config.Labels = foreignLabels(config.GetLabels())
	config.LogDirectory = filepath.Join(p.bench.stack.Scratch(), pod.name)
	config.Linux.CgroupParent = p.bench.stack.CgroupBelow(pod.name)
}

// foreignLabels are as many and as long, but stand for no workload.
func foreignLabels(labels map[string]string) map[string]string {
	foreign := map[string]string{}
	for key, value := range labels {
		foreign["x"+key[1:]] = value
	}
	return foreign
}

// mountOwnFiles mounts an empty file for each file of the shim's.
func (p *player) mountOwnFiles(config *runtimeapi.ContainerConfig, pod *played) error {
	dir := filepath.Join(p.bench.stack.Scratch(), pod.name)
	if err := os.MkdirAll(filepath.Join(dir, config.GetMetadata().GetName()), 0o755); err != nil {
		return err
	}
	for _, mount := range config.GetMounts() {
		if !strings.HasPrefix(mount.GetHostPath(), p.bench.stack.StateDir()) {
			continue
		}
		mount.HostPath = filepath.Join(dir, filepath.Base(mount.GetHostPath()))
		if err := os.WriteFile(mount.HostPath, nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package localstack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CRI is both services of a CRI endpoint on one connection.
type CRI struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
	conn *grpc.ClientConn
}

// Close closes the connection.
func (c *CRI) Close() error { return c.conn.Close() }

// KubeletCRI connects to the kubelet's containerd. The caller closes it.
func (s *Stack) KubeletCRI() (*CRI, error) { return dialCRI(s.layout.kubeletNode()) }

func dialCRI(l layout) (*CRI, error) {
	conn, err := grpc.NewClient("unix://"+l.containerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("dial containerd: %w", err)
	}
	return &CRI{
		RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn),
		ImageServiceClient:   runtimeapi.NewImageServiceClient(conn),
		conn:                 conn,
	}, nil
}

// awaitImages waits until the CRI knows what was imported beside it.
func awaitImages(ctx context.Context, l layout, images []string) (err error) {
	client, err := dialCRI(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, image := range images {
		for {
			response, err := client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image}})
			if err == nil && response.GetImage() != nil {
				break
			}
			select {
			case <-ctx.Done():
				return errors.Join(fmt.Errorf("image %s does not show in the CRI: %w", image, ctx.Err()), err)
			case <-time.After(readyPoll):
			}
		}
	}
	return nil
}

// removePods stops and removes every pod, networks and port mappings included.
func removePods(ctx context.Context, l layout) (err error) {
	client, err := dialCRI(l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	pods, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(4)
	for _, pod := range pods.GetItems() {
		group.Go(func() error {
			id := pod.GetId()
			if _, err := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("stop pod %s: %w", id, err)
			}
			if _, err := client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
				return fmt.Errorf("remove pod %s: %w", id, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a running manager.
type process struct {
	cmd         *exec.Cmd
	health, log string
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// ready asks the manager whether its caches are filled.
func (p *process) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// stop ends the manager, by force after a while.
func (p *process) stop(ctx context.Context) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	ended := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // how it ended is no matter
		close(ended)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	err := p.cmd.Process.Kill()
	<-ended
	return err
}

// tail is the end of the manager's log.
func (p *process) tail() string {
	const most = 2000
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

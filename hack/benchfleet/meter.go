// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/managedworkload/managedworkload/hack/localstack"
	"github.com/managedworkload/managedworkload/hack/usage"
)

// programs are what is measured, in the order of the table.
var programs = []string{"manager", "kube-apiserver", "etcd"}

func (f *fleet) component(program string) *localstack.Component {
	return map[string]*localstack.Component{
		"manager": f.stack.Manager, "kube-apiserver": f.stack.APIServer, "etcd": f.stack.Etcd,
	}[program]
}

// counted are the resources whose requests are counted.
var counted = []string{"managedworkloads", "managedworkloadrevisions", "nodeworkloads", "nodes", "pods", "events", "leases"}

// reading is what was used until a moment.
type reading struct {
	at       time.Time
	pid      map[string]int
	cpu      map[string]time.Duration
	requests map[string]float64
	manager  map[string]float64
}

func (f *fleet) read(ctx context.Context) (reading, error) {
	r := reading{at: time.Now(), pid: map[string]int{}, cpu: map[string]time.Duration{}}
	for _, p := range programs {
		r.pid[p] = f.component(p).PID()
		var err error
		if r.cpu[p], err = usage.CPUTime(r.pid[p]); err != nil {
			return r, err
		}
	}
	metrics, err := f.kube.Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return r, fmt.Errorf("get the metrics of kube-apiserver: %w", err)
	}
	if r.requests, err = usage.Requests(string(metrics), counted...); err != nil {
		return r, err
	}
	text, err := get(ctx, "http://"+f.stack.ManagerMetrics+"/metrics")
	if err != nil {
		return r, fmt.Errorf("get the metrics of the manager: %w", err)
	}
	r.manager, err = usage.ClientRequests(text)
	return r, err
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(response.Body)
	return string(data), err
}

// Phase is what a part of the bench has cost.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// CPU is in seconds, Peak in MB, by program.
	CPU  map[string]float64 `json:"cpu"`
	Peak map[string]int64   `json:"peak"`
	// Requests are those to kube-apiserver, and Manager those that the manager made.
	Requests map[string]float64 `json:"requests"`
	Manager  map[string]float64 `json:"managerRequests"`
	Latency  *Latency           `json:"latency,omitempty"`
	Results  []Result           `json:"results,omitempty"`
}

// Result is a figure of a phase.
type Result struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

func (p *Phase) add(name string, value float64, unit string) {
	p.Results = append(p.Results, Result{name, value, unit})
}

// phase measures what something costs, and keeps it.
func (f *fleet) phase(ctx context.Context, name string, do func(context.Context, *Phase) error) error {
	progress("%s", name)
	before, err := f.read(ctx)
	if err != nil {
		return err
	}
	for _, p := range programs {
		// Peaks start again where the kernel allows it.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", before.pid[p]), []byte("5"), 0)
	}
	result := &Phase{Name: name, CPU: map[string]float64{}, Peak: map[string]int64{}}
	if err := do(ctx, result); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	after, err := f.read(ctx)
	if err != nil {
		return err
	}
	return f.keep(result, before, after)
}

// keep computes a phase. What a program did that was ended in it is not known.
func (f *fleet) keep(result *Phase, before, after reading) error {
	result.Seconds = after.at.Sub(before.at).Seconds()
	for _, p := range programs {
		spent := after.cpu[p]
		if before.pid[p] == after.pid[p] {
			spent -= before.cpu[p]
		}
		result.CPU[p] = spent.Seconds()
		peak, err := usage.Peak(after.pid[p])
		if err != nil {
			return err
		}
		result.Peak[p] = peak >> 20
	}
	if before.pid["kube-apiserver"] != after.pid["kube-apiserver"] {
		before.requests = nil
	}
	if before.pid["manager"] != after.pid["manager"] {
		before.manager = nil
	}
	result.Requests = usage.Since(before.requests, after.requests)
	result.Manager = usage.Since(before.manager, after.manager)
	f.phases = append(f.phases, *result)
	return nil
}

// settle waits until the manager uses hardly more CPU than it does at rest.
func (f *fleet) settle(ctx context.Context) error {
	const look = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		before, err := usage.CPUTime(f.stack.Manager.PID())
		if err != nil {
			return err
		}
		if err := pause(ctx, look); err != nil {
			return fmt.Errorf("wait for the manager to rest: %w", err)
		}
		after, err := usage.CPUTime(f.stack.Manager.PID())
		if err != nil {
			return err
		}
		if float64(after-before)/float64(look) < 2*f.rest+.05 {
			return nil
		}
	}
}

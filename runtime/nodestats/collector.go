// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestats

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The kubelet's names, help texts and labels. (pkg/kubelet/metrics/collectors/resource_metrics.go)
var (
	ofContainer = []string{"container", "pod", "namespace"}
	ofPod       = []string{"pod", "namespace"}

	nodeCPU    = prometheus.NewDesc("node_cpu_usage_seconds_total", "Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory = prometheus.NewDesc("node_memory_working_set_bytes", "Current working set of the node in bytes", nil, nil)
	nodeSwap   = prometheus.NewDesc("node_swap_usage_bytes", "Current swap usage of the node in bytes. Reported only on non-windows systems", nil, nil)

	containerStart     = prometheus.NewDesc("container_start_time_seconds", "Start time of the container since unix epoch in seconds", ofContainer, nil)
	containerCPU       = prometheus.NewDesc("container_cpu_usage_seconds_total", "Cumulative cpu time consumed by the container in core-seconds", ofContainer, nil)
	containerMemory    = prometheus.NewDesc("container_memory_working_set_bytes", "Current working set of the container in bytes", ofContainer, nil)
	containerSwap      = prometheus.NewDesc("container_swap_usage_bytes", "Current amount of the container swap usage in bytes. Reported only on non-windows systems", ofContainer, nil)
	containerSwapLimit = prometheus.NewDesc("container_swap_limit_bytes", "Current amount of the container swap limit in bytes. Reported only on non-windows systems", ofContainer, nil)

	podCPU    = prometheus.NewDesc("pod_cpu_usage_seconds_total", "Cumulative cpu time consumed by the pod in core-seconds", ofPod, nil)
	podMemory = prometheus.NewDesc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", ofPod, nil)
	podSwap   = prometheus.NewDesc("pod_swap_usage_bytes", "Current amount of the pod swap usage in bytes. Reported only on non-windows systems", ofPod, nil)

	scrapeError         = prometheus.NewDesc("scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
	resourceScrapeError = prometheus.NewDesc("resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Handler serves /metrics/resource.
func (s *Source) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(&collector{ctx: req.Context(), source: s})
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, req)
	})
}

// collector makes the metrics of one request.
type collector struct {
	ctx    context.Context //nolint:containedctx // a Collector gets none, and this one lives for a request
	source *Source
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		nodeCPU, nodeMemory, nodeSwap, containerStart, containerCPU, containerMemory, containerSwap, containerSwapLimit,
		podCPU, podMemory, podSwap, scrapeError, resourceScrapeError,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	summary := c.source.Summary(c.ctx)
	failed := 0.
	if summary.Err != nil {
		failed = 1
	}
	out <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, failed)
	out <- prometheus.MustNewConstMetric(resourceScrapeError, prometheus.GaugeValue, failed)
	summary.Node.send(out, nodeCPU, nodeMemory, nodeSwap)
	seen := map[[2]string]bool{}
	for i := range summary.Pods {
		pod := &summary.Pods[i]
		of := [2]string{pod.Namespace, pod.Name}
		if seen[of] { // two instances of one name, while one ends
			continue
		}
		seen[of] = true
		for j := range pod.Containers {
			ctr := &pod.Containers[j]
			labels := []string{ctr.Name, pod.Name, pod.Namespace}
			if !ctr.Created.IsZero() {
				out <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue, float64(ctr.Created.UnixNano())/float64(time.Second), labels...)
			}
			ctr.send(out, containerCPU, containerMemory, containerSwap, labels...)
			if ctr.Swap != nil {
				out <- at(ctr.Time, prometheus.MustNewConstMetric(containerSwapLimit, prometheus.GaugeValue, float64(ctr.Swap.Used+ctr.Swap.Available), labels...))
			}
		}
		pod.send(out, podCPU, podMemory, podSwap, pod.Name, pod.Namespace)
	}
}

// send sends what was measured.
func (u *Usage) send(out chan<- prometheus.Metric, cpu, memory, swap *prometheus.Desc, labels ...string) {
	if u.Time.IsZero() {
		return
	}
	out <- at(u.Time, prometheus.MustNewConstMetric(cpu, prometheus.CounterValue, u.CPU.Seconds(), labels...))
	out <- at(u.Time, prometheus.MustNewConstMetric(memory, prometheus.GaugeValue, float64(u.WorkingSet), labels...))
	if u.Swap != nil {
		out <- at(u.Time, prometheus.MustNewConstMetric(swap, prometheus.GaugeValue, float64(u.Swap.Used), labels...))
	}
}

func at(t time.Time, m prometheus.Metric) prometheus.Metric {
	return prometheus.NewMetricWithTimestamp(t, m)
}

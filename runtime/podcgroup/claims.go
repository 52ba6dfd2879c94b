// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"

	"github.com/managedworkload/managedworkload/runtime/statefile"
)

// claim is a limit of a parent cgroup that was set for a flag, in the units of
// readLimit.
type claim struct {
	// Set is what the flag asked for, and Before what was there.
	Set    int64 `json:"set"`
	Before int64 `json:"before"`
}

// claimed are the claims on one cgroup.
type claimed struct {
	Driver string `json:"driver"`
	// Limits are named as the properties of a slice, with either driver.
	Limits map[string]claim `json:"limits"`
}

// claims are remembered across restarts of the shim, by the path of the cgroup.
type claims map[string]*claimed

// loadClaims reads what was remembered, nothing if there is no file. Claims that cannot
// be read are lost: what was set then stays.
func loadClaims(file string) (claims, error) {
	c := claims{}
	if file == "" {
		return c, nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // the path is our own
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return claims{}, fmt.Errorf("read the bounds that were set before: %w", err)
	}
	maps.DeleteFunc(c, func(_ string, on *claimed) bool { return on == nil || len(on.Limits) == 0 })
	if c == nil {
		c = claims{}
	}
	return c, nil
}

func (c claims) save(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = statefile.Replace(file, data)
	}
	if err != nil {
		return fmt.Errorf("remember the bounds that are set: %w", err)
	}
	return nil
}

// of is the claim on a limit, nil if there is none.
func (c claims) of(path string, kind limitKind) *claim {
	if on := c[path]; on != nil {
		if held, ok := on.Limits[limitFiles[kind].property]; ok {
			return &held
		}
	}
	return nil
}

// set makes a claim, and says whether that is news.
func (c claims) set(cgroup parentCgroup, kind limitKind, to claim) bool {
	on, name := c[cgroup.path], limitFiles[kind].property
	if on == nil {
		on = &claimed{Limits: map[string]claim{}}
		c[cgroup.path] = on
	}
	if held, ok := on.Limits[name]; ok && held == to && on.Driver == cgroup.driver {
		return false
	}
	on.Driver, on.Limits[name] = cgroup.driver, to
	return true
}

// drop gives a claim up.
func (c claims) drop(path string, kind limitKind) {
	if on := c[path]; on != nil {
		delete(on.Limits, limitFiles[kind].property)
		if len(on.Limits) == 0 {
			delete(c, path)
		}
	}
}

// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
)

// dice decide at random; a seed always gives the same.
type dice struct{ *rand.Rand }

func newDice(seed, n uint64) dice { return dice{rand.New(rand.NewPCG(seed, n))} }

// chance is true in so many of a hundred times.
func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, list ...T) T { return list[d.IntN(len(list))] }

// maybe returns a pointer to one of the list, or nil as often as to each of them.
func maybe[T any](d dice, list ...T) *T {
	i := d.IntN(len(list) + 1)
	if i == len(list) {
		return nil
	}
	return &list[i]
}

// some returns a part of a list, in its order.
func some[T any](d dice, percent int, list []T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(T) bool { return !d.chance(percent) })
}

// clone copies a case.
func clone[T any](v *T) *T {
	data, err := json.Marshal(v)
	out := new(T)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		panic(err) // it was made from JSON
	}
	return out
}

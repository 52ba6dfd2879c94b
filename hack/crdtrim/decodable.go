// Copyright The ManagedWorkload Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "math"

// What the forms of controller-gen let pass and Go's types do not take. A quantity's exponent
// is a whole number, and resource.ParseQuantity computes its power of ten: "1e2147483648"
// keeps a core busy for more than ten minutes.
const (
	quantity       = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$`
	quantityLength = 64
)

// The parts of a time in RFC 3339. The format date-time is no help: with it the API server
// takes small letters, any sign before a fraction of a second, any zone, and lists.
const (
	commonDay = `[0-9]{4}-((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)`
	leapDay   = `([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29`
	clock     = `([01][0-9]|2[0-3]):[0-5][0-9]`
	second    = `^(` + commonDay + `|` + leapDay + `)T` + clock + `:[0-5][0-9]`
	zone      = `(Z|[+-]` + clock + `)$`
	timestamp = second + `(\.[0-9]+)?` + zone
	// microTimestamp is what metav1.MicroTime takes: a pattern of its own in the Go types
	// tells it from metav1.Time.
	microTimestamp = second + `\.[0-9]{6}` + zone
)

// decodable narrows a schema to values that the types in Go decode: one stored object that
// does not decode ends the manager's list and watch of all objects of its kind.
func decodable(node any) {
	switch n := node.(type) {
	case []any:
		for _, v := range n {
			decodable(v)
		}
	case map[string]any:
		for _, v := range n {
			decodable(v)
		}
		narrow(n)
	}
}

func narrow(schema map[string]any) {
	_, hasPattern := schema["pattern"].(string)
	switch {
	case schema["x-kubernetes-int-or-string"] == true && hasPattern:
		schema["pattern"], schema["maxLength"] = quantity, quantityLength
	case schema["x-kubernetes-int-or-string"] == true:
		setDefault(schema, "minimum", math.MinInt32)
		setDefault(schema, "maximum", math.MaxInt32)
	case schema["format"] == "date-time" && hasPattern:
		schema["pattern"] = microTimestamp
		delete(schema, "format")
	case schema["format"] == "date-time":
		schema["pattern"] = timestamp
		delete(schema, "format")
	}
}

// setDefault sets a bound that is not set.
func setDefault(schema map[string]any, key string, bound int) {
	if _, has := schema[key]; !has {
		schema[key] = bound
	}
}

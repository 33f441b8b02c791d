package provider

import (
	"maps"
	"net/http"
	"slices"
)

// Over makes the client send its calls through rt.
func (c *Client) Over(rt http.RoundTripper) *Client {
	c.wire = rt
	return c
}

// Codes lists every error code of a profile.
func Codes(profile string) []string {
	p, _ := profileNamed(profile)
	return slices.Sorted(maps.Keys(p.faults))
}

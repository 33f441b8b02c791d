package provider

import "net/http"

// Over makes the client send its calls through rt.
func (c *Client) Over(rt http.RoundTripper) *Client {
	c.wire = rt
	return c
}

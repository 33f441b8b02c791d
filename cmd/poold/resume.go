package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// newResume is `poold resume`.
func newResume(c *console) *cobra.Command {
	return newChange(c, &cobra.Command{
		Use:     "resume TARGET",
		Short:   "end a pause that was not made in the file",
		Long:    "Ends a pause that was made by poold pause, by the API or on the page. One in the file lasts until the file changes.",
		Example: "  poold resume staging-login",
	}, change{
		method: http.MethodPost, path: "/resume",
		tell: func(_, after *status.Target) string {
			text := "tokens are bought for it again"
			if after != nil {
				text += fmt.Sprintf("; %s ready, %d on order, depth %d", tokens(after.Fresh), after.InFlight, after.Depth)
			}
			return text
		},
	})
}

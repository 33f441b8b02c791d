package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"poold/internal/refill"
	"poold/internal/status"
)

// newResume is `poold resume`.
func newResume(c *Console) *cobra.Command {
	return newChange(c, &cobra.Command{
		Use:   "resume TARGET",
		Short: "end a pause that was not made in the file, or try a refused target at once",
		Long: "Ends a pause that was made by poold pause, by the API or on the page. One in the file lasts until the file changes.\n" +
			"A target that the provider refuses is tried at once with one order, and the command says what came of it.",
		Example: "  poold resume staging-login",
	}, change{
		method: http.MethodPost, path: "/resume", compares: true, decided: tried,
		tell: func(before, after *status.Target) string {
			if before != nil && before.State == refill.Refused && after != nil {
				return triedText(before, after)
			}
			text := "tokens are bought for it again"
			if after != nil {
				text += fmt.Sprintf("; %s ready, %d on order, depth %d", tokens(after.Fresh), after.InFlight, after.Depth)
			}
			return text
		},
	})
}

// tried reports whether the order shows that a refused target was tried with.
func tried(before, after *status.Target) bool {
	return before.State != refill.Refused || after.State != refill.Refused ||
		after.FailedInARow > before.FailedInARow || after.BoughtInFlight > before.BoughtInFlight
}

// triedText says what came of the try of a refused target.
func triedText(before, after *status.Target) string {
	switch {
	case after.State != refill.Refused:
		return "the provider takes orders for it again; its state is " + after.State
	case after.FailedInARow > before.FailedInARow:
		return "tried at once, and refused again: " + after.Reason
	case after.BoughtInFlight > before.BoughtInFlight:
		return "tried at once, and the provider accepted the order; it is in order again when that one is solved"
	}
	return "the next order is placed at once; none is wanted now, or none was answered yet"
}

package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"poold/internal/status"
)

// newFlush is `poold flush`.
func newFlush(c *Console) *cobra.Command {
	return newChange(c, &cobra.Command{
		Use:   "flush TARGET",
		Short: "throw the ready tokens of a target away",
		Long: "Throws the ready tokens of a target away, at once and without a question. As many are bought anew, unless it\n" +
			"is paused. What is on order still lands.",
		Example: "  poold flush staging-login",
	}, change{
		method: http.MethodDelete, path: "/tokens", compares: true,
		tell: func(before, after *status.Target) string {
			const unknown = "its ready tokens were thrown away"
			if before == nil || after == nil {
				return unknown
			}
			// With many targets the status can be some seconds old.
			thrown := after.Discarded - before.Discarded
			if thrown < 0 || thrown == 0 && before.Fresh > 0 {
				return unknown
			}
			text := tokens(int(thrown)) + " thrown away"
			if before.Solved > 0 && before.Spent > 0 {
				text += fmt.Sprintf(", about %s at what they cost so far", Amount(float64(thrown)*float64(before.Spent)/float64(before.Solved)))
			}
			return text + fmt.Sprintf("; %d on order still land", after.InFlight)
		},
	})
}

package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// YesFlag adds --yes to a command that calls [Confirm].
func YesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolP(yesFlag, "y", false, "do it without asking")
}

const yesFlag = "yes"

// DryRunFlag adds --dry-run, which shows what a command would do.
func DryRunFlag(cmd *cobra.Command, dry *bool) {
	cmd.Flags().BoolVarP(dry, "dry-run", "d", false, "show what would be done; change nothing")
}

// JSONFlag adds --json, by which a command writes its result for programs.
func JSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "write the result as JSON")
}

// Confirm returns nil if --yes is set or the person at the terminal answers the question with yes. Without a terminal it
// returns a usage error.
func Confirm(cmd *cobra.Command, question string) error {
	if yes, err := cmd.Flags().GetBool(yesFlag); err != nil || yes {
		return err
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isTerminal(in) {
		return Usage(fmt.Errorf("%s Nobody can be asked here: give --yes", question))
	}
	return ask(in, cmd.ErrOrStderr(), question)
}

func ask(in io.Reader, out io.Writer, question string) error {
	fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return Refused(errors.New("not confirmed; nothing was changed"))
}

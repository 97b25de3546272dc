package pubsubio

import (
	"errors"
	"strings"
)

// checkUserSchema tells what is wrong with the text of a schema of the user's.
func checkUserSchema(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("is empty")
	}
	return nil
}

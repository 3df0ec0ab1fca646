/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program weir: everything is in user/cli/table.c. */
#include "user/cli/cli.h"

int main(int argc, char **argv)
{
	return weir_cli_main(argc, argv);
}

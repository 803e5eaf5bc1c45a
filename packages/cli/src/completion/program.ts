/** `tutti completion`, as `tutti --help` lists it. */
import { Argument, type Command } from "commander";

export const SHELLS = ["bash", "zsh", "fish"] as const;

const HELP = `
It is made from the commands themselves, so it is right for the tutti that printed it: have your shell make it anew when it starts.

  bash   echo 'source <(tutti completion bash)' >> ~/.bashrc
  zsh    echo 'source <(tutti completion zsh)' >> ~/.zshrc      (after compinit)
  fish   tutti completion fish > ~/.config/fish/completions/tutti.fish`;

export function addCompletion(program: Command): void {
  program
    .command("completion")
    .addArgument(new Argument("<shell>", "bash, zsh or fish").choices(SHELLS))
    .description("print what completes this command line in a shell: commands, options, files and choices")
    .addHelpText("after", HELP)
    .action(async (shell: (typeof SHELLS)[number]) => (await import("./completion.ts")).completion(shell, program));
}

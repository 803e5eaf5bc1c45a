import { runRole } from "@tutti/cli/role";
import { createGateway } from "@tutti/gateway";

await runRole("gateway", ({ ports, config, options, told, fail }, ready) =>
  createGateway(
    {
      ...ports,
      onListening: (where) => {
        if (where instanceof Error) fail(`can't listen: ${where.message}; choose another --http-port`);
        else told["http"] = where.url;
      },
    },
    { ...config, httpPort: options.httpPort },
    ready,
  ),
);

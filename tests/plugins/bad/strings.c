/* With -DNAME a name that runs into unmapped memory, with -DPATH a path with an invalid pointer. */
#include "bad.h"
#include <sys/mman.h>
static char *page;
static int dangling(int dev, struct properties *properties)
{
    int code = strict_get_properties(dev, properties);
#ifdef NAME
    properties->name = page + 4090;
#endif
#ifdef PATH
    properties->pci_path = (char *)16;
#endif
    return code;
}
static void misbehave(void)
{
    page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 'x', 4096);
    munmap(page + 4096, 4096);
    strict_table.get_properties = dangling;
}
